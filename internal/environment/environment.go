// Package environment determines how to set up the environment for the builds and tests of a
// repository: which package managers to call, in which directories and with which variables. Find
// only reads files. It executes nothing and does not use the network.
package environment

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Settings is the environment section of rgpt.yaml, already validated.
type Settings struct {
	// Image is the container image in which all commands run; "" is that of the worker, which may use
	// none.
	Image string `json:"image,omitempty"`
	// Dockerfile is what the image is built from instead; nil: nothing.
	Dockerfile *Dockerfile `json:"dockerfile,omitempty"`
	// Setup commands run in order in the root of the repository, instead of the detected commands.
	Setup []string `json:"setup,omitempty"`
	// Hosts may be reached during the setup; empty means the registries of the detected ecosystems.
	Hosts []string `json:"hosts,omitempty"`
	// Variables are set for the setup, agents and checks; they override detected ones.
	Variables map[string]string `json:"variables,omitempty"`
	// Cache lists directories below the home that a setup saves for the next one.
	Cache []string `json:"cache,omitempty"`
}

// Dockerfile is a file from which an image is built, as in the section environment of rgpt.yaml.
type Dockerfile struct {
	Path    string            `json:"path" yaml:"-"`
	Context string            `json:"context,omitempty" yaml:"context,omitempty"`
	Target  string            `json:"target,omitempty" yaml:"target,omitempty"`
	Args    map[string]string `json:"args,omitempty" yaml:"args,omitempty"`
}

// Tools maps the names of the worker's tools to their versions: go, node, npm, python, rust, cargo,
// java, maven, gradle, make, gcc. A missing name means that the worker does not have the tool.
type Tools map[string]string

// ImageTool is the name in Tools of the image in which commands run, if they run in containers.
const ImageTool = "image"

// ToolsOf returns the tools in an image, with its id as ImageTool. "" is where the worker's commands run
// by default. The error says why commands cannot run in the image.
type ToolsOf func(ctx context.Context, image string) (Tools, error)

// Facts are properties of the commit that git knows but its files do not contain.
type Facts struct {
	// Version is the output of `git describe --tags`, for packages that take
	// their version from git. It may be empty.
	Version string
	// Time is the time of the commit. If no lock file pins versions, packages are installed as of
	// that time, because newer ones often break older tests. Zero means the newest versions.
	Time time.Time
}

// Source is the origin of a recipe's setup commands.
type Source string

// Sources of setup commands.
const (
	SourceDetected   Source = "detected"
	SourceConfigured Source = "configured"
	SourceAgent      Source = "agent"  // set by the caller that lets an agent write the commands
	SourcePerson     Source = "person" // set by the caller that gets them from a person
)

// Recipe describes how to set up an environment. The same files, settings, tools and facts result
// in the same recipe on every host.
type Recipe struct {
	Source   Source
	Projects []Project
	// Setup commands run in order. A command that fails ends the setup, unless it is optional.
	Setup []Command
	// Image is the id of the container image in which all commands run, and ImageName its name in
	// Settings; both are empty if Settings name none. Dockerfile is what it was built from, if it was.
	Image      string      `json:",omitempty"`
	ImageName  string      `json:",omitempty"`
	Dockerfile *Dockerfile `json:",omitempty"`
	// RunsCode means that the setup runs code of the repository that Inputs may not include:
	// commands that a person wrote, install scripts, a setup.py. Its result is only as trustworthy
	// as the branch.
	RunsCode bool
	// Given means that the commands come from Settings, not from the files.
	Given bool
	// Hosts may be reached during the setup. They come from the embedded list of registries and
	// from Settings, never from a file of the repository.
	Hosts []string
	// Variables and Path (directories to prepend to PATH) apply to the setup, agents and checks.
	Variables map[string]string
	Path      []string
	// Drop lists directories below the home directory that are not needed after the setup, such as
	// download caches.
	Drop []string
	// Cache lists directories below the home directory that are passed from one setup of the
	// repository to the next, and are not part of the environment.
	Cache []string
	// Inputs are the files whose content affects the environment, sorted.
	Inputs  []string
	Missing []MissingTool
	// Hints are lines of the repository that describe how its authors set it up. They are untrusted
	// text for an agent or a person to judge.
	Hints []Hint
	// TestCommand is the repository's own test command, "" if it cannot be determined.
	TestCommand string
}

// Project is a directory with a manifest.
type Project struct {
	Dir       string // slash-separated, relative to the root; "." is the root
	Ecosystem string // go, node, python, rust, java, make
	Manager   string // npm, pnpm, yarn, yarn-berry, bun, uv, poetry, pdm, pipenv, pip, cargo, maven, gradle, go, make
	Manifest  string // path of the file that identifies the project
	Lock      string // path of the lock file, "" without one
	// ManagerVersion is the version that the repository requires, or "" if it requires none.
	ManagerVersion string
}

// Command is one step of the setup, run with `bash -c Shell` in Dir.
type Command struct {
	Dir      string
	Shell    string
	Optional bool // its failure is reported, and the setup continues
}

// MissingTool is a tool that the repository requires and the worker does not offer, or not in the
// required version.
type MissingTool struct {
	Name   string
	Wanted string // such as ">=22" or "3.13"
	Have   string // "" if there is none
	From   string // file with the requirement
}

// Hint is one line of a file that describes how to set up the repository.
type Hint struct {
	File string
	Line int
	Text string
}

// Limits of a recipe. Any excess is omitted: a repository with more projects or commands needs a
// setup written by a person.
const (
	maxProjects = 40
	maxCommands = 60
	maxMissing  = 40
)

// finder collects the recipe of one tree.
type finder struct {
	t     *tree
	tools Tools
	facts Facts
	ci    []ciCommand // commands of workflows, in order
	r     Recipe
}

// Find reads the files below root and determines how to set up the environment that they need. A
// file that cannot be read or parsed is skipped: its own tool reports the problem best. An error
// means that root itself cannot be read.
func Find(root *os.Root, s Settings, tools Tools, facts Facts) (Recipe, error) {
	t, err := readTree(root, maxEntries)
	if err != nil {
		return Recipe{}, err
	}
	f := &finder{t: t, tools: tools, facts: facts, r: Recipe{Source: SourceDetected, Variables: map[string]string{}}}
	f.readHints()
	for _, find := range []func(*finder){findGo, findRust, findJava, findPython, findNode, findMake} {
		find(f)
	}
	f.r.TestCommand = f.testCommand()
	f.applySettings(s)
	if s.Image != "" || s.Dockerfile != nil {
		f.r.Image, f.r.ImageName, f.r.Dockerfile = tools[ImageTool], s.Image, s.Dockerfile
	}
	return f.r, nil
}

// applySettings applies the settings and sorts everything into a fixed order.
func (f *finder) applySettings(s Settings) {
	r := &f.r
	if len(s.Setup) > 0 {
		r.Source, r.Given, r.Setup = SourceConfigured, true, nil
		for _, shell := range s.Setup {
			r.Setup = append(r.Setup, Command{Dir: ".", Shell: shell})
		}
	}
	for _, p := range r.Projects {
		r.Hosts = append(r.Hosts, config.RegistryHosts()[p.Ecosystem]...)
	}
	if len(s.Hosts) > 0 {
		r.Hosts = slices.Clone(s.Hosts)
	}
	maps.Copy(r.Variables, s.Variables)
	for _, entry := range s.Cache {
		if folder, ok := config.HomeFolder(entry); ok {
			r.Cache = append(r.Cache, folder)
		}
	}
	f.addInputs()
	r.Hosts, r.Inputs, r.Drop = unique(r.Hosts), unique(r.Inputs), unique(r.Drop)
	r.Cache = unique(r.Cache)
	r.Missing = r.Missing[:min(len(r.Missing), maxMissing)]
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// project records a project and its files, and reports whether the limit allows it.
func (f *finder) project(p Project) bool {
	if len(f.r.Projects) >= maxProjects {
		return false
	}
	f.r.Projects = append(f.r.Projects, p)
	f.input(p.Manifest, p.Lock)
	return true
}

// input records files that affect the environment, if they exist.
func (f *finder) input(files ...string) {
	for _, p := range files {
		if p != "" && f.t.has(p) {
			f.r.Inputs = append(f.r.Inputs, p)
		}
	}
}

func (f *finder) run(dir, shell string) { f.command(Command{Dir: dir, Shell: shell}) }

func (f *finder) tryRun(dir, shell string) {
	f.command(Command{Dir: dir, Shell: shell, Optional: true})
}

func (f *finder) command(c Command) {
	if len(f.r.Setup) < maxCommands && !slices.Contains(f.r.Setup, c) {
		f.r.Setup = append(f.r.Setup, c)
	}
}

func (f *finder) set(name, value string) { f.r.Variables[name] = value }

func (f *finder) path(dirs ...string) {
	for _, dir := range dirs {
		if !slices.Contains(f.r.Path, dir) {
			f.r.Path = append(f.r.Path, dir)
		}
	}
}

func (f *finder) drop(dirs ...string) { f.r.Drop = append(f.r.Drop, dirs...) }

// want records a tool as missing unless the worker has it in the wanted version; an
// empty wanted accepts any.
func (f *finder) want(name, wanted, from string, ok func(have, wanted string) bool) {
	have := version(f.tools[name])
	if have != "" && (wanted == "" || ok(have, wanted)) {
		return
	}
	m := MissingTool{Name: name, Wanted: clip(wanted, 80), Have: have, From: from}
	if !slices.Contains(f.r.Missing, m) {
		f.r.Missing = append(f.r.Missing, m)
	}
}

// Locations of the parts of an environment inside the sandbox.
const (
	home     = sandbox.Home
	localBin = home + "/.local/bin"
)
