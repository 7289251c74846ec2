/* SPDX-License-Identifier: MIT
 *
 * gcc's names for the sanitizer that a test is built with, for clang too. */
#ifndef SIA_TESTS_SANITIZERS_H
#define SIA_TESTS_SANITIZERS_H

#ifdef __has_feature
#    if __has_feature(address_sanitizer) && !defined __SANITIZE_ADDRESS__
#        define __SANITIZE_ADDRESS__ 1
#    endif
#    if __has_feature(thread_sanitizer) && !defined __SANITIZE_THREAD__
#        define __SANITIZE_THREAD__ 1
#    endif
#endif

#endif
