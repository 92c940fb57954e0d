# Warnings for our own targets; third-party headers come in as SYSTEM.
# -Wrestrict: gcc 12 sees overlaps in the standard library's own string concatenation (its bug 105651).
function(patchbay_warnings target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-sign-compare -Wno-psabi
    -Wno-restrict>)
  if(PATCHBAY_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
endfunction()
