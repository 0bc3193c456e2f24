package diff

import (
	"cmp"
	"strings"
)

// Between returns the patch from what one patch makes of a base to what another one
// makes of the same base: what was done in between. An empty patch is the base itself.
// Files are in the order of their paths, each with as few lines as show the change,
// even if the patches have more. Nothing is removed from the text: its readers do
// that.
func Between(from, to []byte) (string, error) {
	left, err := parsePatch(from)
	if err != nil {
		return "", err
	}
	right, err := parsePatch(to)
	if err != nil {
		return "", err
	}
	var patch strings.Builder
	for _, path := range keysOf(left, right, cmp.Compare[string]) {
		l, r := left[path], right[path]
		if _, diff := compareFile(orUntouched(l, r), orUntouched(r, l), true); diff != nil {
			patch.WriteString(diff.String())
		}
	}
	return strings.ToValidUTF8(patch.String(), "\uFFFD"), nil
}

// orUntouched returns what a patch does to a file, or no change if only the other patch
// names it.
func orUntouched(t, other *touch) *touch {
	if t != nil {
		return t
	}
	return &touch{path: other.path, old: other.old, now: other.old, binary: other.binary}
}
