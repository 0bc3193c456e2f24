package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/term"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/trust"
	"github.com/rocketgpt/orchestrator/internal/workerhost"
)

// app is what commands share: where they read and write, and the parts of the
// house that they need, opened when they are asked for.
type app struct {
	in   io.Reader
	out  io.Writer
	errs io.Writer
	env  []string // in the form of os.Environ

	json        bool
	dataDirFlag string
	serverFlag  string
	serverSet   bool // by the flag
	configFile  string
	set         map[string]string // settings given by flags
}

func newApp(in io.Reader, out, errs io.Writer) *app {
	return &app{in: in, out: out, errs: errs, env: os.Environ(), set: map[string]string{}}
}

// getenv returns a variable of the environment, empty when it is not set. Of
// doubles the last counts.
func (a *app) getenv(name string) string {
	for _, e := range slices.Backward(a.env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// dataDir returns the data folder.
func (a *app) dataDir() (string, error) {
	if a.dataDirFlag != "" {
		return filepath.Abs(a.dataDirFlag)
	}
	return setup.DefaultDataDir()
}

// stack returns the stack of the data folder, nil if none was started there.
func (a *app) stack() (*devstack.Stack, error) {
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	s, err := devstack.Load(dir)
	if errors.Is(err, devstack.ErrNoStack) {
		return nil, nil
	}
	return s, err
}

// config reads the configuration: that of the present folder, else that of the
// stack, with the stack's addresses.
func (a *app) config() (*config.Config, error) {
	s, err := a.stack()
	if err != nil {
		return nil, err
	}
	from := config.Sources{Project: a.configFile, Flags: a.set, Env: a.env}
	scripted := a.getenv(setup.ScriptedURL)
	if from.Project == "" {
		if from.Dir, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("find the present folder: %w", err)
		}
		from.Trusts = a.trusted().Trusts
	}
	if s != nil {
		from.Env = slices.Concat(from.Env, s.Environment())
		scripted = s.Model
		if _, err := os.Stat(filepath.Join(from.Dir, config.FileName)); errors.Is(err, os.ErrNotExist) && s.ConfigDir != "" && from.Project == "" {
			from.Dir, from.Project = s.ConfigDir, s.ConfigFile
		}
	}
	cfg, err := setup.Load(from, scripted)
	if err != nil {
		return nil, err
	}
	setup.RegisterSecrets(cfg)
	return cfg, nil
}

// trusted are the files of folders that the user vouched for.
func (a *app) trusted() trust.List { return trust.Default(a.getenv) }

// parts are what most commands work with.
type parts struct {
	Config    *config.Config
	DataDir   string
	Store     *store.Store
	Feed      *feed.Feed
	Temporal  client.Client
	Artifacts *artifact.Store
	Stack     *devstack.Stack // nil where the parts run elsewhere
}

func (p *parts) Close() {
	if p.Temporal != nil {
		p.Temporal.Close()
	}
	if p.Artifacts != nil {
		_ = p.Artifacts.Close()
	}
	if p.Store != nil {
		p.Feed.Close()
		p.Store.Close()
	}
}

const (
	// databaseTime is how long a command waits for the database: a person waits with it.
	databaseTime = 3 * time.Second
	// connectTime is how long to wait for Temporal where there is something to say without it.
	connectTime = 10 * time.Second
)

// need says which parts a command needs beyond configuration and database.
type need int

const (
	needTemporal need = 1 << iota
	needArtifacts
)

// parts opens the parts that a command needs.
func (a *app) parts(ctx context.Context, needs need) (*parts, error) {
	p := &parts{}
	var err error
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.Stack, err = a.stack(); err != nil {
		return nil, err
	}
	if p.DataDir, err = a.dataDir(); err != nil {
		return nil, err
	}
	if p.Config, err = a.config(); err != nil {
		return nil, err
	}
	if p.Config.Database.URL == "" {
		if _, err = devstack.Load(p.DataDir); err == nil { // else its error says what to do
			err = fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the stack in %s has never been up; start it with `rgpt dev`", p.DataDir)
		}
		return nil, err
	}
	if p.Store, err = store.Open(ctx, p.Config.Database.URL, store.Options{MaxConns: 4, ConnectTimeout: databaseTime}); err != nil {
		return nil, err
	}
	p.Feed = feed.New(p.Store, feed.Options{})
	if needs&needTemporal != 0 {
		if p.Temporal, err = workerhost.Connect(ctx, p.Config.Temporal, quiet()); err != nil {
			return nil, err
		}
	}
	if needs&needArtifacts != 0 {
		if p.Artifacts, err = setup.Artifacts(ctx, p.Config, p.DataDir); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// quiet is a log that a person at a terminal need not see.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// printJSON prints a value as one indented document.
func (a *app) printJSON(v any) {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintln(a.errs, "rgpt: the result could not be printed:", err)
	}
}

// terminal reports whether output goes to a person's terminal.
func (a *app) terminal() bool {
	f, ok := a.out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// plainColumns is how wide a terminal is that does not say so.
const plainColumns = 80

// columns is how wide the terminal is.
func (a *app) columns() int {
	if f, ok := a.out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 1 {
			return width
		}
	}
	return plainColumns
}
