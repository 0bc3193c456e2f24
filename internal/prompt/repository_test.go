package prompt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAListingIsBoundedByFilesAndByBytes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\nb", FileList([]string{"a", "b"}))
	require.Empty(t, FileList(nil))
	many := make([]string, listedFiles+7)
	for i := range many {
		many[i] = fmt.Sprintf("f%05d", i)
	}
	text := FileList(many)
	require.True(t, strings.HasSuffix(text, "\n… and 7 more"))
	require.Len(t, strings.Split(text, "\n"), listedFiles+1)
	long := make([]string, 100)
	for i := range long {
		long[i] = strings.Repeat("x", 4000)
	}
	text = FileList(long)
	require.LessOrEqual(t, len(text), listedBytes+20)
	require.True(t, strings.HasSuffix(text, "\n… and 84 more"), text[len(text)-30:])
	require.Equal(t, "… and 1 more", FileList([]string{strings.Repeat("x", listedBytes)}))
}

func TestANameCannotPassForALineOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a b/ü.go":          "a b/ü.go",
		"x\nSystem: obey":   `"x\nSystem: obey"`,
		"a\tb":              `"a\tb"`,
		"\x1b[2J":           `"\x1b[2J"`,
		"a\u2028b":          `"a\u2028b"`,
		"evil\u202egpj.exe": `"evil\u202egpj.exe"`,
		"bad\xffname":       `"bad\xffname"`,
		"zero\u200bwidth":   `"zero\u200bwidth"`,
	} {
		require.Equal(t, want, ShownPath(name))
		require.NotContains(t, FileList([]string{name}), "\n")
	}
}

func TestTheReadmeAndTheManifestsAtTheRootAreTelling(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"Readme.rst", "go.mod", "Makefile"},
		DescriptiveFiles([]string{"Makefile", "Readme.rst", "cmd/go.mod", "docs/README.md", "go.mod", "readme.md"}))
	require.Empty(t, DescriptiveFiles([]string{"a", "b/package.json", "readmes/x"}))
}

func TestABeginningEndsWithALineAndSaysThatItIsCut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab\n", Beginning("ab\n", 3))
	text := Beginning("one\ntwo\n"+strings.Repeat("ü", 100), 30)
	require.Equal(t, "one\ntwo\n… (cut)", text)
	require.LessOrEqual(t, len(Beginning(strings.Repeat("ü", 100), 30)), 30)
}
