package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Environment is a stored environment.
type Environment struct {
	store.Environment
	// Recipe is omitted: Found contains the same data in readable form.
	Recipe json.RawMessage `json:"recipe,omitempty" hidden:"true"`

	What  string `json:"what" doc:"summary of the setup, such as \"go, node (pnpm)\""`
	InUse bool   `json:"in_use" doc:"used by a run that has not ended"`
	// Found is the setup of the environment, if a single environment is requested.
	Found *FoundEnvironment `json:"found,omitempty"`
}

// FoundEnvironment is the setup detected in the files of a repository, in readable form.
type FoundEnvironment struct {
	Repo        string            `json:"repo"`
	Base        string            `json:"base" doc:"the base commit"`
	Source      string            `json:"source" doc:"source of the setup: \"detected\", \"configured\", \"agent\" or \"person\""`
	What        string            `json:"what"`
	Image       string            `json:"image,omitempty" doc:"container image in which all commands run; absent: that of the worker, which may use none"`
	Dockerfile  string            `json:"dockerfile,omitempty" doc:"Dockerfile from which the image is built instead"`
	Projects    []FoundProject    `json:"projects"`
	Commands    []FoundCommand    `json:"commands"`
	Hosts       []string          `json:"hosts" doc:"hosts that the setup may reach"`
	Variables   map[string]string `json:"variables"`
	Path        []string          `json:"path,omitempty" doc:"directories to prepend to PATH"`
	Missing     []FoundTool       `json:"missing"`
	Hints       []FoundHint       `json:"hints" doc:"unverified setup hints found in the repository's files"`
	TestCommand string            `json:"test_command,omitempty"`
	SetupID     int64             `json:"setup_id,omitempty" doc:"ID of the stored setup that applies to the repository"`
	YAML        string            `json:"yaml" doc:"the setup as an environment section of rgpt.yaml"`
	Notes       []string          `json:"notes,omitempty"`
}

// FoundProject is a directory with a manifest.
type FoundProject struct {
	Dir            string `json:"dir"`
	Ecosystem      string `json:"ecosystem"`
	Manager        string `json:"manager"`
	ManagerVersion string `json:"manager_version,omitempty" doc:"version that the repository requires"`
	Manifest       string `json:"manifest"`
	Lock           string `json:"lock,omitempty"`
}

// FoundCommand is one step of a setup.
type FoundCommand struct {
	Dir      string `json:"dir"`
	Shell    string `json:"shell"`
	Optional bool   `json:"optional,omitempty" doc:"the setup continues if this command fails"`
}

// FoundTool is a tool that the repository requires but the worker lacks.
type FoundTool struct {
	Name   string `json:"name"`
	Wanted string `json:"wanted,omitempty"`
	Have   string `json:"have,omitempty"`
	From   string `json:"from" doc:"file that requires the tool"`
}

// FoundHint is a line of the repository about its setup.
type FoundHint struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

func foundOf(repo, base string, r environment.Recipe) *FoundEnvironment {
	f := &FoundEnvironment{
		Repo: repo, Base: base, Source: string(r.Source), What: r.Describe(), Hosts: store.NotNil(r.Hosts), Variables: r.Variables, Path: r.Path,
		Image: r.ImageName, TestCommand: r.TestCommand, YAML: string(r.YAML()),
		Projects: []FoundProject{}, Commands: []FoundCommand{}, Missing: []FoundTool{}, Hints: []FoundHint{},
	}
	for _, p := range r.Projects {
		f.Projects = append(f.Projects, FoundProject{p.Dir, p.Ecosystem, p.Manager, p.ManagerVersion, p.Manifest, p.Lock})
	}
	for _, c := range r.Setup {
		f.Commands = append(f.Commands, FoundCommand{c.Dir, c.Shell, c.Optional})
	}
	for _, m := range r.Missing {
		f.Missing = append(f.Missing, FoundTool{m.Name, m.Wanted, m.Have, m.From})
	}
	for _, h := range r.Hints {
		f.Hints = append(f.Hints, FoundHint{h.File, h.Line, h.Text})
	}
	if r.Dockerfile != nil {
		f.Dockerfile = r.Dockerfile.Path
	}
	return f
}

// Environments returns up to limit stored environments of one repository, or of all if repo is
// empty, most recently used first.
func (r *Runs) Environments(ctx context.Context, repo string, limit int) ([]Environment, error) {
	repo, err := r.named(ctx, repo)
	if err != nil {
		return nil, err
	}
	rows, err := r.Store.Environments(ctx, repo, limit)
	if err != nil {
		return nil, err
	}
	used, err := r.Store.EnvironmentsInUse(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Environment, 0, len(rows))
	for _, row := range rows {
		e, err := environmentOf(row, used)
		if err != nil {
			return nil, err
		}
		e.Found = nil // a list should be short
		out = append(out, e)
	}
	return out, nil
}

// Environment returns the environment whose digest equals or starts with the given text.
func (r *Runs) Environment(ctx context.Context, digest string) (Environment, error) {
	row, err := r.Store.FindEnvironment(ctx, digest)
	if err != nil {
		return Environment{}, err
	}
	used, err := r.Store.EnvironmentsInUse(ctx)
	if err != nil {
		return Environment{}, err
	}
	return environmentOf(row, used)
}

func environmentOf(row store.Environment, used []string) (Environment, error) {
	e := Environment{Environment: row, InUse: slices.Contains(used, row.Digest)}
	var recipe environment.Recipe
	if err := json.Unmarshal(row.Recipe, &recipe); err != nil {
		return e, fmt.Errorf("read the recipe for environment %.12s: %w", row.Digest, err)
	}
	e.Found, e.What = foundOf(row.Repo, row.BaseCommit, recipe), recipe.Describe()
	return e, nil
}

// RemoveEnvironment removes an environment, its archive, the baselines that ran in it, and this
// host's copy. The next run that needs it creates it again. It cannot be removed while it is used
// by a run that has not ended. by is who removes it.
func (r *Runs) RemoveEnvironment(ctx context.Context, digest, by string) (Environment, error) {
	e, err := r.Environment(ctx, digest)
	if err != nil {
		return e, err
	}
	if e.InUse {
		return e, refused("environment %.12s is used by a run that has not ended; wait until it ends, or stop it", e.Digest)
	}
	archive, err := r.Store.RemoveEnvironment(ctx, e.Digest, by)
	if err != nil {
		return e, err
	}
	if archive != "" {
		if err := retention.New(r.Store, r.Artifacts, slog.New(slog.DiscardHandler)).Reclaim(ctx, []string{archive}); err != nil {
			return e, err
		}
	}
	if _, err := setup.Environments(r.DataDir).Remove(e.Digest); err != nil {
		return e, fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "environment %.12s was removed, but its copy on this host could not be deleted; the worker's next cleanup will delete it", e.Digest)
	}
	return e, nil
}

// FindEnvironment reads the files of a repository's commit and returns the setup that a run would
// use. Nothing is executed or stored.
func (r *Runs) FindEnvironment(ctx context.Context, repo, base string) (FoundEnvironment, error) {
	if repo == "" {
		return FoundEnvironment{}, wrong("no repository given; specify a directory or a URL (--repo)")
	}
	repo, err := withPath(repo)
	if err != nil {
		return FoundEnvironment{}, err
	}
	var notes Created
	at, cfg, err := r.resolve(ctx, Creation{Repo: repo, Base: base}, &notes)
	if err != nil {
		return FoundEnvironment{}, err
	}
	settings := setup.EnvironmentSettings(cfg.Environment)
	known, err := setup.StoredSetup(ctx, r.Store, at.URL, settings)
	if err == nil {
		settings, err = setup.WithStored(settings, known)
	}
	if err != nil {
		return FoundEnvironment{}, err
	}
	recipe, err := r.find(ctx, at, settings)
	if err != nil {
		return FoundEnvironment{}, err
	}
	if known.ID != 0 {
		recipe.Source = environment.Source(known.Source)
	}
	out := foundOf(at.URL, at.Base, recipe)
	out.SetupID, out.Notes = known.ID, notes.Notes
	if cfg.Execution.Sandbox.Runner == config.RunnerDocker {
		image := "the image " + cmp.Or(settings.Image, cfg.Execution.Sandbox.Docker.Image)
		if d := settings.Dockerfile; d != nil {
			image = "an image that is built from " + d.Path
		}
		out.Image, out.Missing = settings.Image, []FoundTool{}
		out.Notes = append(out.Notes, "commands run in containers of "+image+"; only the workers know which tools it contains (rgpt env build)")
	}
	if !cfg.Environment.Enabled {
		out.Notes = append(out.Notes, "environments are disabled in the operator's configuration (environment.enabled): runs do not build this environment")
	}
	return *out, nil
}

// find finds the environment that a commit's files need.
func (r *Runs) find(ctx context.Context, at contract.Repo, s environment.Settings) (recipe environment.Recipe, err error) {
	workspaces, err := setup.Workspaces(r.Config, r.DataDir, r.Artifacts)
	if err != nil {
		return recipe, err
	}
	view, err := workspaces.OpenShared(ctx, at.Workspace())
	if err != nil {
		return recipe, err
	}
	defer view.Close()
	facts, err := factsOf(ctx, workspaces, at)
	if err != nil {
		return recipe, err
	}
	root, err := os.OpenRoot(view.Path())
	if err != nil {
		return recipe, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot open the checkout")
	}
	defer root.Close()
	recipe, err = environment.Find(root, s, sandbox.DetectToolchains().Versions, facts)
	if err != nil {
		return recipe, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot read the checkout")
	}
	return recipe, nil
}

func factsOf(ctx context.Context, workspaces *workspace.Manager, at contract.Repo) (environment.Facts, error) {
	version, err := workspaces.Version(ctx, at.URL, at.Base)
	if err != nil {
		return environment.Facts{}, err
	}
	made, err := workspaces.CommitTime(ctx, at.URL, at.Base)
	return environment.Facts{Version: version, Time: made}, err
}

// NewSetup is the setup of a repository defined by a person. It contains an image, a Dockerfile or at
// least one command, host or variable.
type NewSetup struct {
	Repo       string            `json:"repo" minLength:"1" doc:"a directory on the server's host or a URL"`
	Image      string            `json:"image,omitempty" maxLength:"500" doc:"container image in which all commands run; default: as configured"`
	Dockerfile string            `json:"dockerfile,omitempty" maxLength:"500" doc:"Dockerfile in the repository from which the image is built instead, if the operator allows it"`
	Commands   []string          `json:"commands,omitempty" maxItems:"50" doc:"shell commands, executed in this order in the root of the repository; default: detected from its files"`
	Hosts      []string          `json:"hosts,omitempty" maxItems:"200" doc:"hosts that the setup may reach: public registries, and hosts that the operator allows; default: as configured"`
	Variables  map[string]string `json:"variables,omitempty" doc:"variables for the setup, agents and checks"`
	Reason     string            `json:"reason,omitempty"`
	By         string            `json:"by,omitempty" maxLength:"200" doc:"author of the setup; default: api"`
}

// AddSetup stores a person's setup of a repository. Runs that are prepared from now on use it,
// unless the configuration overrides it.
func (r *Runs) AddSetup(ctx context.Context, n NewSetup) (store.Setup, error) {
	if len(n.Commands)+len(n.Hosts)+len(n.Variables) == 0 && n.Image+n.Dockerfile == "" {
		return store.Setup{}, wrong("the setup is empty; specify an image, a Dockerfile or at least one command, host or variable (--image, --dockerfile, --command, --host, --variable)")
	}
	if n.Repo == "" {
		return store.Setup{}, wrong("no repository given; specify a directory or a URL (--repo)")
	}
	repo, err := r.named(ctx, n.Repo)
	if err != nil {
		return store.Setup{}, err
	}
	if err := r.checkSetup(n); err != nil {
		return store.Setup{}, err
	}
	// Missing values stay as configured, because environment.Settings is applied on top of the
	// configuration.
	var file *environment.Dockerfile
	if n.Dockerfile != "" {
		file = &environment.Dockerfile{Path: n.Dockerfile}
	}
	settings, err := json.Marshal(struct {
		Image      string                  `json:",omitempty"`
		Dockerfile *environment.Dockerfile `json:",omitempty"`
		Setup      []string                `json:",omitempty"`
		Hosts      []string                `json:",omitempty"`
		Variables  map[string]string       `json:",omitempty"`
	}{n.Image, file, n.Commands, n.Hosts, n.Variables})
	if err != nil {
		return store.Setup{}, fmt.Errorf("encode the setup for %s: %w", repo, err)
	}
	return r.Store.AddSetup(ctx, store.Setup{Repo: repo, Source: string(environment.SourcePerson), Settings: settings, Reason: n.Reason, CreatedBy: n.By})
}

// checkSetup checks a setup like the environment section of a request.
func (r *Runs) checkSetup(n NewSetup) error {
	if text := n.Reason + n.By; strings.ContainsRune(text, 0) {
		return wrong("the reason must not contain NUL bytes")
	}
	section := map[string]any{}
	if n.Image != "" {
		section["image"] = n.Image
	}
	switch {
	case n.Dockerfile != "":
		section["dockerfile"], section["image"] = n.Dockerfile, n.Image // not the configured image
	case n.Image != "":
		section["dockerfile"] = ""
	}
	if len(n.Commands) > 0 {
		section["setup"] = n.Commands
	}
	if len(n.Hosts) > 0 {
		section["network"] = map[string]any{"hosts": n.Hosts}
	}
	if len(n.Variables) > 0 {
		section["variables"] = n.Variables
	}
	document, err := yaml.Marshal(map[string]any{"environment": section})
	if err != nil {
		return wrong("cannot write the setup as YAML: %v", err)
	}
	_, err = config.LoadEnvironment(r.Config, document, "the setup")
	return err
}

// Setups returns up to limit stored setups of one repository, or of all if repo is empty, newest
// first.
func (r *Runs) Setups(ctx context.Context, repo string, limit int) ([]store.Setup, error) {
	repo, err := r.named(ctx, repo)
	if err != nil {
		return nil, err
	}
	return r.Store.Setups(ctx, repo, limit)
}

// RevokeSetup revokes a stored setup. It is rejected if the setup is already revoked, and fails
// with ErrNotFound if it does not exist.
func (r *Runs) RevokeSetup(ctx context.Context, id int64, by string) (store.Setup, error) {
	revoked, err := r.Store.RevokeSetup(ctx, id, by)
	if err != nil {
		return store.Setup{}, err
	}
	known, err := r.Store.SetupByID(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return known, fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "setup %d not found; see rgpt env setups", id)
	}
	if err == nil && !revoked {
		err = refused("setup %d is already revoked", id)
	}
	return known, err
}

// named returns the name under which a repository's data is stored; an empty name stays empty.
func (r *Runs) named(ctx context.Context, repo string) (string, error) {
	if repo == "" {
		return "", nil
	}
	repo, err := withPath(repo)
	if err != nil {
		return "", err
	}
	workspaces, err := setup.Workspaces(r.Config, r.DataDir, r.Artifacts)
	if err != nil {
		return "", err
	}
	return workspaces.Named(ctx, repo)
}

// LiveOutput returns up to limit pieces of the output of a run's commands after the piece with the
// ID after. Pieces older than an hour may have been deleted.
func (r *Runs) LiveOutput(ctx context.Context, id, after int64, limit int) ([]views.Output, error) {
	if _, err := r.Store.Run(ctx, id); err != nil {
		return nil, err
	}
	return r.Views.LiveOutput(ctx, id, after, limit)
}
