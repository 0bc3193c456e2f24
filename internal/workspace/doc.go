// Package workspace turns contract.Workspace, a repository's state as a value,
// into directories and back.
//
// Below its cache directory, a Manager keeps a bare mirror of each repository with the base commits
// that runs started from, a directory for each key that callers use, and directories that readers
// share. All of it is a cache: every state can be rebuilt from the repository, the base commit and the patch in the blob store,
// on any host.
//
// # Isolation of git
//
// Models and commands from repositories write to work trees, so nothing in a work tree may affect
// git on the host. The git directory and the index are outside the work tree. Git uses only our
// configuration: no system or user configuration, hooks, fsmonitor, filters, text conversion, or
// external diff or merge programs. Content is taken byte for byte: attributes that would change
// line endings or encodings are switched off, so a tree is exactly the content that was tested.
// Files that Git LFS stores elsewhere are therefore the pointers that the repository contains.
//
// A repository on this host is read with upload-pack and written with receive-pack, with hooks and
// every setting that names a program overridden; the user's own hooks therefore do not run when a
// branch is created there.
//
// # Use of git processes
//
// A process costs more than the actual work of most calls. So this package handles plain cases
// itself: it records a change of one file as the next tree (SaveFile), compares two trees and
// writes the patch, merges trees that differ from their base in different files, and packs the
// objects of a new branch for receive-pack, without a push. It reads objects from packs with
// go-git, checks them against their ids, and writes new ones in git's loose format. Plain means
// unambiguous: text, ordinary names, regular files, SHA-1. Everything else is errNeedsGit inside
// the package and left to the git program. Whether a change is plain depends only on its trees, so
// all hosts produce the same patch.
package workspace
