// Package commits turns commits of real repositories into tasks: it picks small commits that change
// code and tests, expresses their diffs as calls of the product's tools, and creates repositories
// that end before them.
package commits
