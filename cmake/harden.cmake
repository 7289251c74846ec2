# SPDX-License-Identifier: MIT
# What makes a mistake in the code harder to use for an attacker; tests/hardening.sh looks for it in the program.
# Optimised builds only: fortified functions need the optimiser, and sanitizers do more in the others.
include(CheckCSourceCompiles)
include(CheckPIESupported)

macro(sia_harden)
  check_pie_supported(LANGUAGES C)
  # Level 3 follows sizes that are known only when the program runs; it takes gcc 12 or clang 9, and glibc 2.34.
  set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_c_source_compiles("#include <stdio.h>
#if !defined(__USE_FORTIFY_LEVEL) || __USE_FORTIFY_LEVEL < 3
#error
#endif
int main(void) { return 0; }" SIA_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(fortify 2)
  if(SIA_FORTIFY_3)
    set(fortify 3)
  endif()
  set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
  add_compile_options("$<${optimised}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${fortify};-fstack-protector-strong>")
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    add_link_options("$<${optimised}:-Wl,-z,relro;-Wl,-z,now;-Wl,-z,noexecstack>")
  endif()
endmacro()
