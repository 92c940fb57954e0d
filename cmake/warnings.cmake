# Warnings for our own targets; third-party headers come in as SYSTEM.
function(patchbay_warnings target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wno-sign-compare -Wno-psabi>)
  if(PATCHBAY_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
endfunction()
