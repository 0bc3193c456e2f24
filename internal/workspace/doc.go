// Package workspace turns contract.Workspace, a repository's state as a value,
// into directories and back.
//
// A Manager keeps below its cache directory a bare mirror of each repository
// with the base commits that runs started from, and a directory for each key
// that callers work under. All of it is a cache: every state can be made again
// from the repository, the base commit and the patch in the blob store, on any
// host.
//
// # What runs and what does not
//
// Work trees hold what models and commands from repositories wrote, so nothing
// in them decides what git does on the host. The git directory and the index
// lie outside the work tree. Git sees our configuration only: none of the
// system's or the user's, no hooks, no fsmonitor, no filters, no text
// conversion, no external diff or merge program. Content is taken byte for
// byte: attributes that would change line endings or encodings are switched
// off, so that a tree is what was tested. Files that Git LFS keeps elsewhere
// are therefore the pointers that the repository holds.
//
// A repository on this host is read and written by upload-pack and receive-pack
// with hooks and every setting that names a program overridden; the user's own
// hooks therefore do not run when a branch is created there.
package workspace
