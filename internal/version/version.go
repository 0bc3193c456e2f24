// Package version says which release and which build this is.
package version

// Release is the release that this code belongs to: the newest one in CHANGELOG.md.
const Release = "0.1.0"

// Revision is the commit of the build. The linker sets it; see the Makefile.
var Revision = "dev"

// Version identifies the build, such as 0.1.0+7419b7d, in the form of Semantic
// Versioning. It has no spaces, so headers can contain it.
var Version = Release + "+" + Revision

// Long is the version for people, such as 0.1.0 (7419b7d).
func Long() string { return Release + " (" + Revision + ")" }
