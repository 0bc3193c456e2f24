package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gitTime is the time limit for checking whether git tracks a path.
const gitTime = 10 * time.Second

// Tracked reports whether git tracks a path, or a path below it, in the repository that contains
// it; outside a repository, it returns false. Tracked files come from the repository's authors. Git
// does not run programs from the repository's own configuration, and does not treat a directory of
// the repository as another repository.
func Tracked(path string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "-C", filepath.Dir(path), "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"-c", "safe.directory=*", "-c", "safe.bareRepository=explicit", "ls-files", "--cached", "-z", "--", filepath.Base(path))
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	switch {
	case err == nil:
		return len(out) > 0, nil
	case ctx.Err() == nil && strings.Contains(said.String(), "not a git repository (or any"):
		return false, nil
	case errors.Is(err, exec.ErrNotFound):
		return false, errors.New("git is not installed, so it is unknown whether the directory belongs to a repository")
	}
	return false, fmt.Errorf("check whether git tracks the path: %w: %s", err, strings.TrimSpace(said.String()))
}
