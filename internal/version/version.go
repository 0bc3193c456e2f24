// Package version identifies the release and the build.
package version

// Release is the release that this code belongs to: the newest one in CHANGELOG.md.
const Release = "0.1.0"

// Revision is the commit of the build. The linker sets it; see the Makefile.
var Revision = "dev"

// Version identifies the build, such as 0.1.0+7419b7d, in the form of Semantic
// Versioning. It has no spaces, so headers can contain it.
var Version = Release + "+" + Revision

// Long returns the human-readable version, such as 0.1.0 (7419b7d).
func Long() string { return Release + " (" + Revision + ")" }
