// Package version says which build this is.
package version

// Version is set by the linker; see the Makefile.
var Version = "dev"
