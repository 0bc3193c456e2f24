package change

import "time"

// Dependency is a version of a package that a change adds to a manifest or a lock file, with what the
// registry of its ecosystem says about it.
type Dependency struct {
	// Path is the file that names it.
	Path string
	// Ecosystem is its name in OSV, such as npm.
	Ecosystem, Name string
	// Version is the one that is installed if Exact, otherwise the first that a range of versions
	// names; "": none is named.
	Version string
	Exact   bool
	// Source is the URL from which a lock file fetches it, or of the registry that its manifest or a
	// setting of the repository names for it, or registry: and the name of that registry; "": they name
	// none.
	Source string

	Status Status
	// Published is when the version was published, and First when the package's first version was.
	// Zero: it is not known.
	Published, First time.Time
	// Reason says why the status is StatusUnknown or StatusLocal.
	Reason string
	// Claimed says of StatusLocal that the change itself adds the package to the repository.
	Claimed bool
}

// Status is what is known about a version of a package.
type Status string

// The statuses of dependencies.
const (
	StatusFound     Status = "found"      // the registry has it; for a range: it has the package
	StatusNoVersion Status = "no_version" // the registry has the package, but not this exact version
	StatusNotFound  Status = "not_found"  // the registry has no such package
	StatusUnknown   Status = "unknown"    // the lookup failed, or could not be made
	StatusPrivate   Status = "private"    // not looked up: its name must stay private
	StatusLocal     Status = "local"      // not looked up: it is a part of the repository
	StatusOff       Status = "off"        // not looked up: the configuration turns its registry off
)
