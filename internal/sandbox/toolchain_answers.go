package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
)

// answersTime is how long a toolchain's answer is reused. A starting worker runs about twenty
// queries, which take two seconds of processor time: too much right after a crash.
const answersTime = 10 * time.Minute

// answersBytes limits the file with the answers.
const answersBytes = 1 << 20

// answers are the outputs of toolchain queries, stored in a file in the user's cache directory. An
// answer becomes invalid when the program, a version manager's choice or the environment changes.
type answers struct {
	file  string // "" if there is no cache directory
	mu    sync.Mutex
	known map[string]answer
	added bool
}

type answer struct {
	At     time.Time `json:"at"`
	Output []byte    `json:"output"`
}

func loadAnswers() *answers {
	a := &answers{known: map[string]answer{}}
	dir, err := os.UserCacheDir()
	if err != nil {
		return a
	}
	a.file = filepath.Join(dir, "rgpt", "toolchains.json")
	f, err := os.Open(a.file)
	if err != nil {
		return a
	}
	defer func() { _ = f.Close() }()
	if json.NewDecoder(io.LimitReader(f, answersBytes)).Decode(&a.known) != nil || a.known == nil {
		a.known = map[string]answer{}
	}
	maps.DeleteFunc(a.known, func(_ string, x answer) bool { return time.Since(x.At).Abs() > answersTime })
	return a
}

// save stores new answers for the next worker. A failure, or another worker saving at the same
// time, only costs time.
func (a *answers) save() {
	if !a.added || a.file == "" {
		return
	}
	data, err := json.Marshal(a.known)
	if err != nil || os.MkdirAll(filepath.Dir(a.file), 0o700) != nil {
		return
	}
	_ = renameio.WriteFile(a.file, data, 0o600)
}

// ask returns the output of a toolchain's program, or nil if it fails.
func (a *answers) ask(program string, args ...string) []byte {
	return a.question((*exec.Cmd).Output, program, args)
}

// askAll is like ask for a program that may print to standard error.
func (a *answers) askAll(program string, args ...string) []byte {
	return a.question((*exec.Cmd).CombinedOutput, program, args)
}

func (a *answers) question(output func(*exec.Cmd) ([]byte, error), program string, args []string) []byte {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	key := answerKey(path, args)
	a.mu.Lock()
	old, ok := a.known[key]
	a.mu.Unlock()
	if ok {
		return old.Output
	}
	out := runQuestion(output, path, args)
	// The go command is fast, and its answer depends on more settings than a key covers.
	if out != nil && program != "go" {
		a.mu.Lock()
		a.known[key], a.added = answer{At: time.Now(), Output: out}, true
		a.mu.Unlock()
	}
	return out
}

// versionChoices are the files in a home directory in which version managers store the selected
// version of a toolchain.
var versionChoices = []string{
	".pyenv/version", ".rustup/settings.toml", ".nvm/alias/default", ".tool-versions", ".config/mise/config.toml",
	".volta/tools/user/platform.json", ".sdkman/candidates/java/current", ".sdkman/candidates/maven/current", ".sdkman/candidates/gradle/current",
}

// toolchainVariables are the environment variables that change the answers of toolchains.
var toolchainVariables = regexp.MustCompile(`^(PATH|HOME|LANG|LC_|PY|PIP_|VIRTUAL_ENV|CONDA_|NODE_|NPM_|npm_|NVM_|FNM_|VOLTA_|RUST|CARGO_|JAVA_|JDK_|M2_|MAVEN_|GRADLE_|SDKMAN_|ASDF_|MISE_)`)

// answerKey returns a digest of everything that an answer depends on.
func answerKey(path string, args []string) string {
	sum := sha256.New()
	resolved, _ := filepath.EvalSymlinks(path)
	fmt.Fprintf(sum, "%q %q %q\n", path, resolved, args)
	files := []string{path, resolved}
	if home, err := os.UserHomeDir(); err == nil {
		for _, name := range versionChoices {
			files = append(files, filepath.Join(home, name))
		}
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintln(sum, file, info.Size(), info.ModTime().UnixNano())
		}
	}
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool { return !toolchainVariables.MatchString(v) })
	slices.Sort(environment)
	fmt.Fprint(sum, strings.Join(environment, "\x00"))
	return hex.EncodeToString(sum.Sum(nil))
}
