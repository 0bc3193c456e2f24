package output

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorLinesAreTheErrorAndNotWhatFollowsFromIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ out, want string }{
		"cargo":    {"error: linker `cc` not found\n  = note: No such file\n\nerror: aborting due to 1 previous error\n\nerror: could not compile `serde` (build script) due to 1 previous error\n", "error: linker `cc` not found"},
		"maven":    {"[ERROR] Plugin rat:0.18 requires Maven version 3.9 -> [Help 1]\n[ERROR] \n[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.\n[ERROR] [Help 1] http://example.com/x\n", "[ERROR] Plugin rat:0.18 requires Maven version 3.9 -> [Help 1]"},
		"make":     {"cp: cannot stat 'a': error 2\nmake: *** [Makefile:2: all] Error 1\n", "cp: cannot stat 'a': error 2"},
		"npm":      {"sh: tsc: not found\nnpm ERR! code 127\nnpm ERR! path /w\n", "sh: tsc: not found"},
		"only one": {"error: could not compile `x`\n", "error: could not compile `x`"},
		"none":     {"one\ntwo\n", "two"},
	} {
		require.Equal(t, c.want, ErrorLine([]byte(c.out)), name)
	}
}
