package sandboxtest

import (
	"os"
	"path/filepath"
)

// UseBuiltTools adds the programs that make tools builds, such as gitleaks, to the PATH of a test
// program, behind all others. Call it in TestMain, before toolchains are detected.
func UseBuiltTools() {
	dir, err := os.Getwd()
	if err != nil {
		return
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			_ = os.Setenv("PATH", os.Getenv("PATH")+string(filepath.ListSeparator)+filepath.Join(dir, "bin"))
			return
		}
	}
}
