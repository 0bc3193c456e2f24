package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rocketgpt/orchestrator/internal/apiclient"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/trust"
)

// app contains the state that commands share: input, output and configuration.
type app struct {
	in   io.Reader
	out  io.Writer
	errs io.Writer
	env  []string // in the form of os.Environ

	asks        bool // questions are asked even if input and output are not a terminal
	json        bool
	dataDirFlag string
	serverFlag  string
	serverSet   bool // by the --server flag
	configFile  string
	set         map[string]string // settings given by flags
}

func newApp(in io.Reader, out, errs io.Writer) *app {
	return &app{in: in, out: out, errs: errs, env: os.Environ(), set: map[string]string{}}
}

// getenv returns the value of an environment variable, empty if it is not set. If it is set more
// than once, the last value counts.
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

// config reads the configuration of the current directory, or else of the stack, and adds the
// stack's addresses.
func (a *app) config() (*config.Config, error) {
	s, err := a.stack()
	if err != nil {
		return nil, err
	}
	from := config.Sources{Project: a.configFile, Flags: a.set, Env: a.env}
	scripted := a.getenv(setup.ScriptedURL)
	if from.Project == "" {
		if from.Dir, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("find the current directory: %w", err)
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

// trusted returns the list of configuration files that the user trusts.
func (a *app) trusted() trust.List { return trust.Default(a.getenv) }

// printJSON prints a value as one indented JSON document.
func (a *app) printJSON(v any) {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintln(a.errs, "rgpt: cannot print the result:", err)
	}
}

// printList prints a list as JSON under its name, or as a table. For an empty list, it prints the
// text empty, if set, instead of a table.
func printList[T any](a *app, name string, list []T, empty, header string, row func(io.Writer, T)) {
	switch {
	case a.json:
		a.printJSON(map[string]any{name: list})
	case len(list) == 0 && empty != "":
		fmt.Fprintln(a.out, empty)
	default:
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, header)
		for _, v := range list {
			row(w, v)
		}
		_ = w.Flush()
	}
}

// terminal reports whether output goes to a terminal.
func (a *app) terminal() bool {
	f, ok := a.out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// interactive reports whether a person can be asked a question.
func (a *app) interactive() bool {
	f, ok := a.in.(*os.File)
	return a.asks || ok && term.IsTerminal(int(f.Fd())) && a.terminal()
}

// confirm asks a question and reports whether the answer is yes; without an answer, it is no. An
// interrupted command does not wait for the answer.
func (a *app) confirm(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(a.errs, question, " [y/N] ")
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(a.in).ReadString('\n') // what precedes the end of the input counts
		line <- text
	}()
	select {
	case text := <-line:
		answer := strings.ToLower(strings.TrimSpace(text))
		return answer == "y" || answer == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(a.errs)
		return false, ended{exitStopped}
	}
}

// plainColumns is the assumed width of a terminal that does not report one.
const plainColumns = 80

// columns is the width of the terminal.
func (a *app) columns() int { return columnsOf(a.out) }

// columnsOf is the width of the terminal that output goes to.
func columnsOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 1 {
			return width
		}
	}
	return plainColumns
}

// open opens the backend of a command: the server if one is specified, otherwise the local
// components that the command needs.
func (a *app) open(ctx context.Context, needs backend.Needs) (backend.Backend, error) {
	if address := a.server(); address != "" {
		return apiclient.New(address, func(text string) { fmt.Fprintln(a.errs, "rgpt: warning:", terminal.Clean(text)) })
	}
	stack, err := a.stack()
	if err != nil {
		return nil, err
	}
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	return backend.OpenLocal(ctx, cfg, dir, stack, needs)
}

// serverEnv is the variable that names the server for commands.
const serverEnv = "RGPT_SERVER"

// server returns the address of the server that commands use: the value of the flag, even if empty,
// otherwise of the environment variable. Empty means this machine.
func (a *app) server() string {
	if a.serverSet {
		return a.serverFlag
	}
	return a.getenv(serverEnv)
}

// localOnly marks a command and its subcommands as working on this machine only.
const localOnly = "local only"

// local marks commands that work on this machine only.
func local(cmds ...*cobra.Command) []*cobra.Command {
	for _, c := range cmds {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[localOnly] = "true"
	}
	return cmds
}

// refuseServer rejects --server for commands that cannot use it. The environment variable is
// ignored: it is meant for the other commands.
func (a *app) refuseServer(cmd *cobra.Command) error {
	a.serverSet = cmd.Flags().Changed("server")
	if !a.serverSet || a.serverFlag == "" {
		return nil
	}
	for c := cmd; c != nil; c = c.Parent() {
		if c.Annotations[localOnly] != "" {
			return usageError{fmt.Errorf("%s works only on this machine, not through a server; omit --server", cmd.CommandPath())}
		}
	}
	return nil
}

// checkRemote rejects relative paths, which a server would resolve on its own host: a directory
// must be an absolute path on the server's host.
func checkRemote(repo string) error {
	if strings.HasPrefix(repo, "/") || strings.Contains(repo, ":") {
		return nil
	}
	return usageError{fmt.Errorf("--repo %s: with --server, specify the absolute path of a directory on the server's host, or a URL", repo)}
}

// with calls do with the backend of a command.
func (a *app) with(ctx context.Context, needs backend.Needs, do func(backend.Backend) error) error {
	b, err := a.open(ctx, needs)
	if err != nil {
		return err
	}
	defer b.Close()
	return do(b)
}
