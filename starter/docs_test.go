package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// markdown returns the documents that show commands.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/decisions/*.md", "../examples/*.md"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			out[strings.TrimPrefix(path, "../")] = string(text)
		}
	}
	return out
}

// flagsOf returns the names of the flags of a command, with those that it inherits.
func flagsOf(cmd *cobra.Command) map[string]bool {
	out := map[string]bool{"help": true, "version": true}
	add := func(f *pflag.Flag) { out[f.Name] = true }
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return out
}

var (
	word      = regexp.MustCompile(`^[a-z][a-z-]*$`)
	flagName  = regexp.MustCompile(`^--([a-z][a-z-]*)`)
	endOfCall = regexp.MustCompile(` +(?:#|\||&&|;|<|>).*| {2,}.*`)
)

// unknown returns what a command line in a document names and rgpt does not have.
func unknown(root *cobra.Command, line string) (out []string) {
	cmd, below := root, true
	args := strings.Fields(endOfCall.ReplaceAllString(line, ""))
	for i := 0; i < len(args); i++ {
		arg := strings.Trim(args[i], `,.:"`)
		if m := flagName.FindStringSubmatch(arg); m != nil {
			for name := range strings.SplitSeq(m[1], "|") {
				if !flagsOf(cmd)[name] {
					out = append(out, cmd.CommandPath()+" --"+name)
				}
			}
			f := cmd.Flag(m[1])
			if f != nil && f.NoOptDefVal == "" && !strings.Contains(arg, "=") {
				i++ // its value
			}
			continue
		}
		if !below || !cmd.HasSubCommands() {
			below = false
			continue
		}
		for name := range strings.SplitSeq(arg, "|") {
			sub, _, err := cmd.Find([]string{name})
			switch {
			case err == nil && sub != cmd:
				if name == arg {
					cmd = sub
				}
			case word.MatchString(name):
				out = append(out, cmd.CommandPath()+" "+name)
			default:
				below = false
			}
		}
	}
	return out
}

func TestCommandsAndFlagsInDocumentsExist(t *testing.T) {
	t.Parallel()
	root := newRoot(&app{})
	call := regexp.MustCompile("(?m)(?:^\\$ (?:[^\n#]*? )?|`)(?:bin/)?rgpt +([^`\n]+)")
	seen, problems := 0, map[string]bool{}
	for name, text := range markdown(t) {
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			seen++
			for _, what := range unknown(root, m[1]) {
				problems[name+": "+what] = true
			}
		}
	}
	require.Greater(t, seen, 150)
	require.Empty(t, slices.Sorted(maps.Keys(problems)))
}

func TestFlagsInDocumentsBelongToSomeCommand(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"force-with-lease": true, "reference": true, "separate-git-dir": true} // git's
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		maps.Copy(known, flagsOf(cmd))
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(&app{}))
	problems := map[string]bool{}
	for name, text := range markdown(t) {
		for _, m := range regexp.MustCompile("`--([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				problems[name+": --"+m[1]] = true
			}
		}
	}
	require.Empty(t, slices.Sorted(maps.Keys(problems)))
}

func TestTheExitCodesOfTheREADMEAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	var said []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d) \| (.*) \|$`).FindAllStringSubmatch(markdown(t)["README.md"], -1) {
		said = append(said, m[1]+" "+strings.ToLower(m[2]))
	}
	require.Len(t, said, 5)
	for code, about := range map[int]string{exitDone: "succeeded", exitError: "error", exitFailed: "failed", exitStopped: "stopped", exitInput: "input"} {
		require.Contains(t, said[code], about)
	}
}

func TestEveryCommandIsInTheTableOfTheREADME(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(markdown(t)["README.md"], "## Commands")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`rgpt"+`[^|]*) \|`).FindAllStringSubmatch(table, -1) {
		parent := "rgpt"
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			name := m[1]
			if !strings.HasPrefix(name, "rgpt") {
				name = parent + " " + name
			}
			named[name] = true
			if i := strings.LastIndexByte(name, ' '); i > 0 {
				parent = name[:i]
			}
		}
	}
	var missing []string
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.HasSubCommands() {
			for _, sub := range cmd.Commands() {
				visit(sub)
			}
		} else if path := cmd.CommandPath(); !cmd.Hidden && !named[path] && !strings.HasPrefix(path, "rgpt completion") {
			missing = append(missing, path)
		}
	}
	visit(newRoot(&app{}))
	require.Empty(t, missing)
}
