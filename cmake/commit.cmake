# Run at each build: writes the commit the sources stand at ("unknown" outside a git checkout), only when it changed.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "unknown")
endif()
set(text "#pragma once\n#define PATCHBAY_COMMIT \"${commit}\"\n#define PATCHBAY_VERSION \"${VERSION}\"\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT text STREQUAL "${old}")
  file(WRITE ${OUTPUT} "${text}")
endif()
