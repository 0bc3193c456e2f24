package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// recipeFormat must change when the same recipe produces a different environment, or when different
// parts of an environment are stored.
const recipeFormat = 2

// usedTools are the tools whose versions affect an environment.
var usedTools = map[string][]string{
	"go": {"go"}, "node": {"node", "npm"}, "python": {"python"}, "rust": {"cargo", "rust"}, "java": {"java", "maven", "gradle"}, "make": {"make", "gcc"},
}

// Digest returns the key of the environment that the recipe produces: a hash of everything that
// affects it, on this kind of machine. The content of inputs is read with open; an input that
// cannot be read is an error, because its environment could be mistaken for another one. Hints and
// missing tools are excluded, because they do not change a command.
func (r Recipe) Digest(open func(path string) (io.ReadCloser, error), tools Tools) (string, error) {
	inputs := map[string]string{}
	for _, p := range r.Inputs {
		sum, err := digestOf(open, p)
		if err != nil {
			return "", fmt.Errorf("read %s, which determines the environment: %w", p, err)
		}
		inputs[p] = sum
	}
	versions := map[string]string{}
	if r.Source != SourceDetected { // what such commands use is unknown
		maps.Copy(versions, tools)
	}
	if image, ok := tools[ImageTool]; ok { // another system
		versions[ImageTool] = image
	}
	for _, p := range r.Projects {
		for _, name := range usedTools[p.Ecosystem] {
			versions[name] = tools[name]
		}
	}
	all, err := json.Marshal(struct {
		Format    int
		Setup     []Command
		Variables map[string]string
		Path      []string
		Drop      []string
		Cache     []string
		Inputs    map[string]string
		Tools     map[string]string
		Platform  string
	}{recipeFormat, r.Setup, r.Variables, r.Path, r.Drop, r.Cache, inputs, versions, runtime.GOOS + "/" + runtime.GOARCH})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(all)), nil
}

// digestOf reads a file of any size.
func digestOf(open func(path string) (io.ReadCloser, error), name string) (string, error) {
	file, err := open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// YAML returns the recipe as the environment section of rgpt.yaml, ready to commit. With these
// settings, Find returns equivalent commands.
func (r Recipe) YAML() []byte {
	var file struct {
		Environment struct {
			Image   string      `yaml:"image,omitempty"`
			File    string      `yaml:"dockerfile,omitempty"`
			Build   *Dockerfile `yaml:"build,omitempty"`
			Setup   []string    `yaml:"setup,omitempty"`
			Network struct {
				Hosts []string `yaml:"hosts,omitempty"`
			} `yaml:"network,omitempty"`
			Variables map[string]string `yaml:"variables,omitempty"`
			Cache     []string          `yaml:"cache,omitempty"`
		} `yaml:"environment"`
	}
	for _, c := range r.Setup {
		file.Environment.Setup = append(file.Environment.Setup, c.line())
	}
	file.Environment.Image = r.ImageName
	if d := r.Dockerfile; d != nil {
		file.Environment.File = d.Path
		if d.Context != "" || d.Target != "" || len(d.Args) > 0 {
			file.Environment.Build = d
		}
	}
	file.Environment.Network.Hosts = r.Hosts
	file.Environment.Variables = r.Variables
	for _, folder := range r.Cache {
		file.Environment.Cache = append(file.Environment.Cache, "~/"+folder)
	}
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	// Strings in lists and maps can always be encoded.
	_ = encoder.Encode(file)
	return []byte(out.String())
}

// line returns an equivalent command for the root of the repository.
func (c Command) line() string {
	line := c.Shell
	if c.Dir != "." && c.Dir != "" {
		line = "(cd " + sandbox.Quote(c.Dir) + " && { " + line + "; })"
	} else if c.Optional {
		line = "(" + line + ")" // in a subshell, so that its exit does not skip the commands that follow
	}
	if c.Optional {
		line += " || true"
	}
	return line
}
