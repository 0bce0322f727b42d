/* What the shared library shows: everything declared between ANELLO_API_BEGIN and ANELLO_API_END. The rest is compiled
   with hidden visibility. */
#ifndef ANELLO_EXPORT_H
#define ANELLO_EXPORT_H

#ifdef __GNUC__
#define ANELLO_API_BEGIN _Pragma("GCC visibility push(default)")
#define ANELLO_API_END _Pragma("GCC visibility pop")
#else
#define ANELLO_API_BEGIN
#define ANELLO_API_END
#endif

#endif
