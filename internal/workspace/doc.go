// Package workspace turns contract.Workspace, a repository's state as a value,
// into directories and back.
//
// A Manager keeps below its cache directory a bare mirror of each repository
// with the base commits that runs started from, and a directory for each key
// that callers use. All of it is a cache: every state can be rebuilt
// from the repository, the base commit and the patch in the blob store, on any
// host.
//
// # What runs and what does not
//
// Work trees hold what models and commands from repositories wrote, so nothing
// in them affects what git does on the host. The git directory and the index
// are outside the work tree. Git sees only our configuration: none of the
// system's or the user's, no hooks, no fsmonitor, no filters, no text
// conversion, no external diff or merge program. Content is taken byte for
// byte: attributes that would change line endings or encodings are switched
// off, so that a tree is what was tested. Files that Git LFS stores elsewhere
// are therefore the pointers that the repository contains.
//
// A repository on this host is read and written by upload-pack and receive-pack
// with hooks and every setting that names a program overridden; the user's own
// hooks therefore do not run when a branch is created there.
//
// # What needs a git process
//
// A process costs more than the work that most calls need. So plain cases are handled
// here: one file of a work tree becomes the next tree (SaveFile), two trees are
// compared and their patch is written, trees that differ from their base in
// different files are merged. Objects are read from packs by go-git and written as
// git writes loose ones; what is read is checked against its id. Plain is what is
// unambiguous: text, usual names, regular files, SHA-1. Everything else is
// errNeedsGit inside the package, and is left to the git program. Whether a change
// is plain follows from its trees alone, so that all hosts make the same patch of it.
package workspace
