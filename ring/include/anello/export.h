/* Exports from the shared library everything that is declared between ANELLO_API_BEGIN and ANELLO_API_END. All other
 * code is compiled with hidden visibility. */
#ifndef ANELLO_EXPORT_H
#define ANELLO_EXPORT_H

/* Every public header includes this file first. The C API also compiles in older versions of C++. */
#if defined(__cplusplus) && __cplusplus <= 201703L && !defined(ANELLO_ANELLO_H)
#error "Anello's C++ headers need C++20: compile with -std=c++20, or use the C API, <anello/anello.h>"
#endif

#ifdef __GNUC__
#define ANELLO_API_BEGIN _Pragma("GCC visibility push(default)")
#define ANELLO_API_END _Pragma("GCC visibility pop")
#else
#define ANELLO_API_BEGIN
#define ANELLO_API_END
#endif

#endif
