"""The folder that an export writes: artifacts, a manifest, golden data; and how it is replaced, sealed and read again.

* `manifest` and `schema` say what is in a bundle, `golden` has the recorded calls, `carries` what each port takes.
* `place`, `replacement` and `forced` put a bundle into its folder: whole, or not at all, and over nobody else's files.
* `seal` and `identity` say whether files are those that were written. A bundle is a stranger's until it is trusted.

The fields of a manifest, and SCHEMA_VERSION, are in `manifest`; `schema` reads them. The C++ runner and the page that
proves in a browser read these keys, too. The version is raised when an older reader would
misread a file.
"""
