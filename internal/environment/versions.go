package environment

import (
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

var versionNumber = regexp.MustCompile(`\d+(?:\.\d+){0,3}`)

// version returns the version number in the output of a tool or in a file.
func version(s string) string { return versionNumber.FindString(clip(s, 200)) }

// maxConstraint limits the length of constraints that are parsed.
const maxConstraint = 300

// satisfies reports whether a version satisfies a constraint in npm's syntax. A constraint that
// cannot be parsed counts as satisfied: its tool will report it.
func satisfies(have, wanted string) bool {
	if len(wanted) > maxConstraint {
		return true
	}
	v, err := semver.NewVersion(threeParts(have))
	if err != nil {
		return true
	}
	c, err := semver.NewConstraint(wanted)
	return err != nil || c.Check(v)
}

func threeParts(v string) string {
	parts := strings.Split(v, ".")
	return strings.Join(parts[:min(3, len(parts))], ".")
}

var (
	compatible = regexp.MustCompile(`~=\s*(\d+)((?:\.\d+)*)\.\d+`)
	arbitrary  = regexp.MustCompile(`===?`)
)

// satisfiesPython does the same for PEP 440 and Poetry specifiers.
func satisfiesPython(have, wanted string) bool {
	if len(wanted) > maxConstraint {
		return true
	}
	wanted = compatible.ReplaceAllStringFunc(wanted, func(s string) string {
		least := strings.TrimSpace(strings.TrimPrefix(s, "~="))
		parts := strings.Split(least, ".")
		return ">=" + least + ",=" + strings.Join(parts[:len(parts)-1], ".") + ".x"
	})
	wanted = strings.ReplaceAll(arbitrary.ReplaceAllString(wanted, "="), ".*", ".x")
	return satisfies(have, strings.TrimRight(strings.TrimSpace(wanted), ","))
}

// atLeast reports whether a version is at least the wanted one, compared number by number.
func atLeast(have, wanted string) bool {
	h, err := semver.NewVersion(threeParts(version(have)))
	if err != nil {
		return true
	}
	w, err := semver.NewVersion(threeParts(version(wanted)))
	return err != nil || !h.LessThan(w)
}

// startsWith reports whether a version belongs to a series: 3.13.1 belongs to 3.13.
func startsWith(have, wanted string) bool {
	wanted = version(wanted)
	return wanted == "" || have == wanted || strings.HasPrefix(have, wanted+".")
}
