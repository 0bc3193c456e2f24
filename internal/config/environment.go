package config

import (
	_ "embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Environment configures how the dependencies of a project are installed before agents and checks
// begin, and how long the installation is kept.
type Environment struct {
	Enabled    bool               `yaml:"enabled" doc:"Install the project's dependencies before a run's first step."`
	Image      string             `yaml:"image" repo:"images" validate:"omitempty,max=500,image" doc:"Container image in which all commands of a run are executed: the setup, agents and checks. Requires execution.sandbox.runner: docker. Empty: execution.sandbox.docker.image." example:"node:24-bookworm"`
	Dockerfile string             `yaml:"dockerfile" repo:"builds" validate:"omitempty,max=500,relpath" doc:"Dockerfile in the repository from which the image is built instead. Requires execution.sandbox.docker.build.enabled." example:".rgpt/Dockerfile"`
	Build      DockerfileBuild    `yaml:"build" doc:"How environment.dockerfile is built."`
	Setup      []string           `yaml:"setup" repo:"yes" validate:"max=50,dive,required" doc:"Shell commands that install the dependencies. The commands run in the order listed. Empty: detected from the repository's files." example:"[npm ci]"`
	Network    EnvironmentNetwork `yaml:"network" doc:"Network access during installation."`
	Variables  map[string]string  `yaml:"variables" repo:"yes" validate:"max=100,dive,keys,variable,endkeys" doc:"Additional environment variables for every command." example:"{DJANGO_SETTINGS_MODULE: app.settings}"`
	Cache      []string           `yaml:"cache" repo:"yes" validate:"max=20,dive,homepath" doc:"Directories in the home directory, such as download caches, that the next setup of the same repository reuses. These directories are not part of the environment." example:"[~/.npm, ~/.cache/pip]"`
	Timeout    time.Duration      `yaml:"timeout" repo:"lower" validate:"min=1s,max=24h" doc:"Maximum duration of an installation."`
	AgentTurns int                `yaml:"agent_turns" repo:"lower" validate:"min=0,max=1000" doc:"Maximum number of model calls that the environment agent may make to fix a failed setup. 0: the agent is not used."`
	Disk       Size               `yaml:"disk" validate:"min=16777216" doc:"Maximum disk space for all environments on this host. The least recently used environments are removed first; environments in use are kept."`
	Count      int                `yaml:"count" validate:"min=1,max=100000" doc:"Maximum number of environments on this host."`
	Age        time.Duration      `yaml:"age" validate:"min=1h" doc:"Environments that have not been used for this long are removed."`
}

// DockerfileBuild configures the build of environment.dockerfile.
type DockerfileBuild struct {
	Context string            `yaml:"context" repo:"yes" validate:"omitempty,max=500,relpath" doc:"Directory whose files the Dockerfile may copy. Empty: the repository's root." example:"services/api"`
	Target  string            `yaml:"target" repo:"yes" validate:"max=100" doc:"Stage to build. Empty: the last." example:"dev"`
	Args    map[string]string `yaml:"args" repo:"yes" validate:"max=100,dive,keys,envname,endkeys,max=4096" doc:"Values of the Dockerfile's ARG instructions. They are not secret." example:"{NODE_VERSION: \"24\"}"`
}

// CheckDockerfile checks environment.dockerfile and environment.build where they come from another file
// than rgpt.yaml. The error says what is wrong.
func CheckDockerfile(e Environment) error {
	for _, p := range []string{e.Dockerfile, e.Build.Context} {
		if len(p) > maxPath || !isRelativePath(p) || strings.ContainsFunc(p, unicode.IsControl) {
			return fmt.Errorf("%.100q is not a path inside the repository", p)
		}
	}
	if len(e.Build.Target) > maxTarget {
		return fmt.Errorf("the name of its target is longer than %d bytes", maxTarget)
	}
	if len(e.Build.Args) > maxArgs {
		return fmt.Errorf("it has more than %d arguments", maxArgs)
	}
	for name, value := range e.Build.Args {
		if !envNamePattern.MatchString(name) || len(value) > maxArg {
			return fmt.Errorf("the argument %.100q has an invalid name or a value of more than %d bytes", name, maxArg)
		}
	}
	return nil
}

// The limits of environment.dockerfile and environment.build, which their tags repeat.
const (
	maxPath   = 500
	maxTarget = 100
	maxArgs   = 100
	maxArg    = 4096
)

// EnvironmentNetwork configures the network access of an installation.
type EnvironmentNetwork struct {
	Hosts        []string         `yaml:"hosts" repo:"registries" validate:"max=200,dive,hostpattern" doc:"Hosts that an installation may reach. Empty: the public registries of the detected languages." example:"[packages.example.com, nexus.example.com]"`
	Credentials  []HostCredential `yaml:"credentials" validate:"max=100,dive" doc:"Headers that the worker adds to requests to private registries. Commands cannot see these headers." example:"[{host: nexus.example.com, header: Authorization, env: NEXUS_AUTHORIZATION}]"`
	AllowPrivate []string         `yaml:"allow_private" validate:"max=200,dive,privatehost" doc:"Hosts, such as a company's registry, that may resolve to private addresses. Loopback, link-local and cloud metadata addresses are always blocked." example:"[nexus.example.com]"`
}

// HostCredential is a header for requests to one host, sent only inside TLS.
type HostCredential struct {
	Host   string `yaml:"host" secret:"true" validate:"required,hostpattern" doc:"Host name, without a wildcard."`
	Header string `yaml:"header" secret:"true" validate:"required,headername" doc:"Name of the header, such as Authorization."`
	Env    string `yaml:"env" secret:"true" validate:"omitempty,envname" doc:"Name of the worker's environment variable that contains the header value."`
	File   string `yaml:"file" secret:"true" validate:"omitempty,abspath" doc:"File on the worker's host that contains the header value. Set either env or file."`
}

// Value reads the header's value. getenv is usually os.Getenv. The error never contains it.
func (c HostCredential) Value(getenv func(string) string) (string, error) {
	if c.Env != "" {
		if value := strings.TrimSpace(getenv(c.Env)); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("the credential for %s is missing: the environment variable %s is empty or not set", c.Host, c.Env)
	}
	data, err := os.ReadFile(c.File)
	if err != nil {
		return "", fmt.Errorf("the credential for %s cannot be read: %w", c.Host, err)
	}
	value := strings.TrimSpace(string(data))
	if value == "" {
		return "", fmt.Errorf("the credential for %s is missing: the file %s is empty", c.Host, c.File)
	}
	return value, nil
}

// HomeFolder returns the path below the home directory for an entry of environment.cache, and
// whether the entry is valid: "~/.npm" and ".npm" are valid.
func HomeFolder(entry string) (string, bool) {
	folder := path.Clean(strings.TrimPrefix(entry, "~/"))
	return folder, folder != "." && folder != "~" && filepath.IsLocal(folder) && !strings.ContainsFunc(entry, func(r rune) bool { return r < ' ' })
}

//go:embed registries.yaml
var registries []byte

// RegistryHosts returns the hosts of the public registries by language: go, node,
// python, rust, java.
func RegistryHosts() map[string][]string {
	out := map[string][]string{}
	for language, hosts := range parsedRegistries() {
		out[language] = slices.Clone(hosts)
	}
	return out
}

var parsedRegistries = sync.OnceValue(func() map[string][]string {
	var out map[string][]string
	if err := yaml.Unmarshal(registries, &out); err != nil {
		return nil // a test reads it
	}
	return out
})

// allRegistryHosts are the hosts for all languages.
func allRegistryHosts() []string {
	var all []string
	for _, hosts := range parsedRegistries() {
		all = append(all, hosts...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// deniedVariables change which programs and libraries are loaded, or the environment that a command
// assumes, so that a build would not be what it appears to be.
var deniedVariables = []string{
	"PATH", "HOME", "SHELL", "ENV", "BASH_ENV", "IFS", "TMPDIR", "USER", "GLIBC_TUNABLES", "GCONV_PATH",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "PYTHONSTARTUP", "PYTHONHOME", "PERL5OPT", "RUBYOPT",
	"RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "GOCACHE", "GOCACHEPROG", "GOTOOLCHAIN",
}

// deniedPrefixes are the prefixes of families of such variables.
var deniedPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "GIT_"}

// deniedWords match forbidden options in the values of variables that pass options to programs.
var deniedWords = map[string]*regexp.Regexp{
	"GOFLAGS":      regexp.MustCompile(`(^|[\s"'])--?(toolexec|exec|overlay|vettool)\b`),
	"NODE_OPTIONS": regexp.MustCompile(`(^|[\s"'])(--?r(equire)?\b|--import\b|--(experimental-)?loader\b|--openssl-config\b)`),
	"MAVEN_OPTS":   regexp.MustCompile(`-javaagent|-agentlib|-agentpath|-XX:On`),
	"GRADLE_OPTS":  regexp.MustCompile(`-javaagent|-agentlib|-agentpath|-XX:On`),
}

// isVariable reports whether a name is allowed in environment.variables.
func isVariable(name string) bool {
	if !envNamePattern.MatchString(name) || slices.Contains(deniedVariables, name) {
		return false
	}
	return !slices.ContainsFunc(deniedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// VariableProblem returns the reason why a variable is not allowed in environment.variables, or an
// empty string if it is.
func VariableProblem(name, value string) string {
	switch denied := deniedWords[name]; {
	case !isVariable(name):
		return "is not allowed: it changes which programs and libraries are loaded, or is not a valid name"
	case denied != nil && denied.MatchString(value):
		return "has an option that loads other programs or code, which is not allowed here"
	case strings.ContainsRune(value, 0):
		return "contains a NUL byte"
	}
	return ""
}

// environmentProblems returns the conflicting or invalid settings of the section.
func environmentProblems(e Environment) []problem {
	var out []problem
	switch b := e.Build; {
	case e.Image != "" && e.Dockerfile != "":
		out = append(out, problem{"environment.dockerfile", "conflicts with environment.image, which is " + strconv.Quote(e.Image) + "; set only one of them, and the other to \"\""})
	case e.Dockerfile == "" && (b.Context != "" || b.Target != "" || len(b.Args) > 0):
		out = append(out, problem{"environment.build", "requires environment.dockerfile"})
	}
	for i, c := range e.Network.Credentials {
		key := "environment.network.credentials[" + strconv.Itoa(i) + "]"
		if (c.Env == "") == (c.File == "") {
			out = append(out, problem{key, "expected either env (the name of a variable) or file, not both"})
		}
		if strings.HasPrefix(c.Host, "*.") {
			out = append(out, problem{key + ".host", "expected one host without a wildcard; with a wildcard, the owner of any matching subdomain would receive the credential"})
		}
	}
	for name, value := range e.Variables {
		if denied := deniedWords[name]; denied != nil && denied.MatchString(value) {
			out = append(out, problem{"environment.variables." + name, "has an option that loads other programs or code, which is not allowed here"})
		}
		if strings.ContainsRune(value, 0) {
			out = append(out, problem{"environment.variables." + name, "contains a NUL byte"})
		}
	}
	slices.SortFunc(out, func(a, b problem) int { return strings.Compare(a.key, b.key) })
	return out
}
