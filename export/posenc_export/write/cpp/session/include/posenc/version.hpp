/// @file
/// The version of the session: an inline namespace, so that two of them in one program are two things.
#pragma once

#define POSENC_VERSION v4

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define POSENC_EXCEPTIONS 1
#else
#define POSENC_EXCEPTIONS 0
#endif

// POSENC_SHARED: the session is a shared library; POSENC_BUILDING: this is being compiled into it.
#if !defined(_WIN32)
#define POSENC_VISIBLE __attribute__((visibility("default")))
#else
#define POSENC_VISIBLE
#endif
#if !defined(POSENC_SHARED)
#define POSENC_API
#elif !defined(_WIN32)
#define POSENC_API POSENC_VISIBLE
#elif defined(POSENC_BUILDING)
#define POSENC_API __declspec(dllexport)
#else
#define POSENC_API __declspec(dllimport)
#endif
