package checks

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Limits on reading the scripts of a package.json.
const (
	maxScript     = 16 << 10 // bytes of one script
	maxScriptHops = 8        // nested calls from script to script
	maxScriptRuns = 100      // simple commands of a script and of the scripts that it calls
)

// runnerCall is a test runner that a script starts.
type runnerCall struct {
	runner string   // mocha, jest, vitest, …, as in runnerNames
	args   []string // its arguments; what the shell would expand is ""
	// last reports whether arguments passed to the script reach the runner; dashes is the number of
	// "--" that must precede them because of the scripts in between.
	last   bool
	dashes int
}

// script resolves a script of a package.json, including the scripts that it calls, to the test
// runners that it starts. It executes nothing and guesses nothing: it omits anything that it does
// not understand.
type script struct {
	scripts map[string]string
	calls   []runnerCall
	runs    int
	// unknown is true if something that cannot be read here may run tests, such as a script of
	// another package or an unknown program.
	unknown bool
	builds  bool // something compiles or bundles sources, or is called a build
	serves  bool // a server compiles sources on demand
}

// runnersIn resolves a command as if it were a script.
func runnersIn(scripts map[string]string, command string) script {
	s := script{scripts: scripts}
	s.read(command, true, 0, nil)
	return s
}

func runnersOf(scripts map[string]string, name string) script {
	s := script{scripts: scripts}
	s.follow(name, true, 0, nil)
	return s
}

// follow reads one script. last reports whether arguments of the outermost script reach the end of
// this one.
func (s *script) follow(name string, last bool, dashes int, path []string) {
	s.builds = s.builds || buildName.MatchString(name)
	s.serves = s.serves || serverName.MatchString(name)
	if slices.Contains(path, name) {
		s.unknown = true
		return
	}
	s.read(s.scripts[name], last, dashes, append(slices.Clone(path), name))
}

// read reads the text of a script; path are the names of the scripts that led to it.
func (s *script) read(text string, last bool, dashes int, path []string) {
	if len(text) > maxScript || len(path) > maxScriptHops {
		s.unknown = true
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		s.unknown = true
		return
	}
	end := endOf(file)
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if s.runs++; s.runs > maxScriptRuns {
			s.unknown = true
			return false
		}
		words := make([]string, len(call.Args))
		for i, w := range call.Args {
			words[i] = literalWord(w)
		}
		s.command(words, last && call == end, dashes, path)
		return true
	})
}

// endOf returns the simple command to which text appended to a script belongs, or nil.
func endOf(file *syntax.File) *syntax.CallExpr {
	if len(file.Stmts) == 0 {
		return nil
	}
	stmt := file.Stmts[len(file.Stmts)-1]
	for {
		if stmt.Background || len(stmt.Redirs) > 0 || stmt.Semicolon.IsValid() {
			return nil
		}
		switch cmd := stmt.Cmd.(type) {
		case *syntax.CallExpr:
			return cmd
		case *syntax.BinaryCmd:
			stmt = cmd.Y
		default:
			return nil
		}
	}
}

// literalWord returns a word without its quotes, or "" if the shell would expand it.
func literalWord(w *syntax.Word) string {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return ""
				}
				b.WriteString(lit.Value)
			}
		default:
			return ""
		}
	}
	return b.String()
}

// runnerNames maps program names to the known test runners.
var runnerNames = map[string]string{
	"mocha": "mocha", "_mocha": "mocha", "jest": "jest", "vitest": "vitest", "ava": "ava", "tape": "tape",
	"tap": "tap", "jasmine": "jasmine", "uvu": "uvu", "playwright": "playwright", "react-scripts": "jest",
}

// wrappers start another program, named after their own arguments.
var wrappers = map[string]bool{
	"cross-env": true, "cross-env-shell": true, "env": true, "c8": true, "nyc": true, "dotenv": true, "env-cmd": true,
	"npx": true, "pnpx": true, "bunx": true, "time": true, "nice": true, "xvfb-run": true, "timeout": true, "exec": true,
}

// inModules finds the package in the path of an installed program:
// ./node_modules/vitest/dist/cli-wrapper.js, node_modules/.bin/mocha.
var inModules = regexp.MustCompile(`(?:^|/)node_modules/(?:\.bin/)?((?:@[\w.-]+/)?[\w.-]+)`)

// program returns the package or base name of a program.
func program(word string) string {
	if m := inModules.FindStringSubmatch(word); m != nil {
		return m[1]
	}
	return path.Base(word)
}

// command examines one simple command.
func (s *script) command(words []string, last bool, dashes int, path []string) {
	for len(words) > 0 {
		first, rest := program(words[0]), words[1:]
		s.builds = s.builds || compiles(first, rest)
		s.serves = s.serves || compilesOnDemand(first, rest)
		switch {
		case strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-"):
			words = rest // variables set by cross-env and env
			continue
		case wrappers[first]:
			words = s.wrapped(rest)
			continue
		case first == "node" || first == "tsx" || first == "ts-node":
			s.node(first, rest, last, dashes)
			return
		case first == "npm" || first == "pnpm" || first == "yarn" || first == "bun":
			words = s.manager(first, rest, last, dashes, path)
			continue
		case runnerNames[first] != "":
			s.found(runnerNames[first], rest, last, dashes)
			return
		case !testless[first]:
			s.unknown = true
		}
		return
	}
}

// testless are programs that are known to run no tests.
var testless = set(
	// shells
	"cd", "echo", "printf", "export", "set", "unset", "true", "false", ":", "test", "[", "exit", "sleep", "wait",
	// files
	"rm", "rimraf", "del", "del-cli", "mkdir", "mkdirp", "make-dir", "rmdir", "touch", "cp", "cpy", "cpx", "copyfiles", "ncp",
	"mv", "ln", "chmod", "cat", "ls", "pwd", "shx", "tee", "sed", "grep", "head", "tail", "sort", "tar", "which", "git",
	// linters and formatters
	"eslint", "tslint", "jshint", "standard", "ts-standard", "semistandard", "xo", "prettier", "biome", "oxlint", "oxfmt", "dprint", "rome",
	"stylelint", "markdownlint", "markdownlint-cli2", "remark", "cspell", "commitlint", "lockfile-lint", "sort-package-json",
	"depcheck", "knip", "madge", "publint", "attw", "size-limit", "bundlesize", "es-check", "npmPkgJsonLint", "actionlint",
	// compilers and bundlers
	"tsc", "vue-tsc", "svelte-check", "tsd", "tsgo", "babel", "swc", "esbuild", "rollup", "webpack", "tsup", "tsdown", "unbuild",
	"microbundle", "ncc", "sass", "api-extractor", "typedoc", "tspc", "vite", "next", "astro", "nuxi", "svelte-kit", "prisma",
	"graphql-codegen",
	// servers to test against
	"wait-on", "kill-port", "http-server", "serve",
	// coverage tools: nyc report, c8 check-coverage
	"report", "check-coverage", "codecov", "coveralls",
	// package managers, and their subcommands that run nothing
	"install", "i", "ci", "add", "pack", "publish", "audit", "link", "dedupe", "why", "husky", "patch-package",
)

func set(words ...string) map[string]bool {
	out := make(map[string]bool, len(words))
	for _, w := range words {
		out[w] = true
	}
	return out
}

func (s *script) found(runner string, args []string, last bool, dashes int) {
	if runner == "vitest" && len(args) > 0 && (args[0] == "bench" || args[0] == "list") {
		return
	}
	if runner == "playwright" && (len(args) == 0 || args[0] != "test") {
		return
	}
	s.calls = append(s.calls, runnerCall{runner: runner, args: args, last: last, dashes: dashes})
}

// wrapped returns the command that a wrapper starts: the words from the first program that can run
// tests. Without one, the command must begin with a program that runs no tests.
func (s *script) wrapped(words []string) []string {
	for i, w := range words {
		name := program(w)
		switch name {
		case "node", "tsx", "ts-node", "npm", "pnpm", "yarn", "bun":
			return words[i:]
		}
		if runnerNames[name] != "" && !strings.HasPrefix(w, "-") || wrappers[name] {
			return words[i:]
		}
	}
	first := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") })
	s.unknown = s.unknown || first >= 0 && !testless[program(words[first])]
	return nil
}

// node examines the arguments of node: it runs its own test runner or the file of another one.
func (s *script) node(name string, args []string, last bool, dashes int) {
	for i, a := range args {
		switch {
		case a == "--test":
			s.calls = append(s.calls, runnerCall{runner: "node", args: args, last: last, dashes: dashes})
			return
		case strings.HasPrefix(a, "-"):
		case inModules.MatchString(a) && runnerNames[program(a)] != "":
			s.found(runnerNames[program(a)], args[i+1:], last, dashes)
			return
		case strings.HasSuffix(a, ".js") || strings.HasSuffix(a, ".mjs") || strings.HasSuffix(a, ".cjs") || strings.HasSuffix(a, ".ts"):
			if name == "node" && i > 0 && strings.HasPrefix(args[i-1], "-") && takesValue[args[i-1]] {
				continue
			}
			s.unknown = true // a program of the repository may run tests
			return
		}
	}
	s.unknown = s.unknown || hasOperand(args)
}

// hasOperand reports whether node is given a program, such as scripts/check, besides options and
// their values.
func hasOperand(args []string) bool {
	for i, a := range args {
		value := i > 0 && (takesValue[args[i-1]] || evaluates[args[i-1]])
		if !value && !strings.HasPrefix(a, "-") {
			return true
		}
	}
	return false
}

// evaluates are the options of node that are followed by code to run.
var evaluates = set("-e", "--eval", "-p", "--print", "-pe")

// takesValue are the options of node that are followed by their value.
var takesValue = map[string]bool{"-r": true, "--require": true, "--import": true, "--loader": true, "--experimental-loader": true, "-C": true, "--conditions": true}

// manager follows a call of a package manager: a script by its name, a test runner, or all packages
// of a workspace. It returns the words of any other command that is started.
func (s *script) manager(name string, args []string, last bool, dashes int, path []string) []string {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if slices.Contains([]string{"-r", "--recursive", "-w", "--workspace", "--workspaces", "-ws", "--filter", "-F", "--cwd", "-C", "--prefix", "--dir"}, strings.SplitN(args[0], "=", 2)[0]) {
			s.unknown = true
			return nil
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return nil
	}
	verb, rest := args[0], args[1:]
	switch {
	case name == "bun" && verb == "test":
		s.found("bun", rest, last, dashes)
		return nil
	case verb == "exec" || verb == "dlx" || verb == "x":
		return s.wrapped(rest)
	case verb == "workspaces" || verb == "workspace" || verb == "recursive" || verb == "m" || verb == "multi":
		s.unknown = true
		return nil
	case verb == "run" || verb == "run-script" || verb == "rum":
		for len(rest) > 0 && strings.HasPrefix(rest[0], "-") && rest[0] != "--" {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return nil
		}
		verb, rest = rest[0], rest[1:]
	case name == "npm" && (verb == "test" || verb == "t" || verb == "tst"):
		verb = "test"
	case name == "npm":
		return nil // npm ci, npm pack
	}
	if s.scripts[verb] == "" {
		if name == "npm" {
			return nil
		}
		return append([]string{verb}, rest...) // a program in node_modules/.bin
	}
	if name == "npm" && !slices.Contains(rest, "--") {
		dashes++
	}
	// Arguments in the call narrow what the script does and do not affect its runner.
	s.follow(verb, last, dashes, path)
	return nil
}

// scriptCall is a call of a script of the same package.
type scriptCall struct {
	script string
	args   []string
}

// scriptsCalled returns the scripts that a script runs one after the other, each only if those
// before it succeeded, or nil if it does anything else.
func scriptsCalled(text string) []scriptCall {
	if len(text) > maxScript {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil
	}
	var calls []scriptCall
	var add func(stmt *syntax.Stmt) bool
	add = func(stmt *syntax.Stmt) bool {
		if stmt.Background || stmt.Negated || len(stmt.Redirs) > 0 {
			return false
		}
		switch cmd := stmt.Cmd.(type) {
		case *syntax.BinaryCmd:
			return cmd.Op == syntax.AndStmt && add(cmd.X) && add(cmd.Y)
		case *syntax.CallExpr:
			call, ok := scriptIn(cmd)
			calls = append(calls, call)
			return ok
		}
		return false
	}
	if !add(file.Stmts[0]) {
		return nil
	}
	return calls
}

// scriptIn reads a simple command that runs a script, such as npm run unit -- --run.
func scriptIn(cmd *syntax.CallExpr) (scriptCall, bool) {
	var words []string
	for _, w := range cmd.Args {
		words = append(words, literalWord(w))
	}
	if len(cmd.Assigns) > 0 || len(words) < 2 || slices.Contains(words, "") {
		return scriptCall{}, false
	}
	manager, rest := words[0], words[1:]
	run := rest[0] == "run" || rest[0] == "run-script"
	switch {
	case run:
		rest = rest[1:]
	case manager == "npm" || manager == "bun":
		return scriptCall{}, false
	}
	if !slices.Contains([]string{"npm", "pnpm", "yarn", "bun"}, manager) || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return scriptCall{}, false
	}
	call := scriptCall{script: rest[0], args: rest[1:]}
	if len(call.args) > 0 && call.args[0] == "--" {
		call.args = call.args[1:]
	} else if manager == "npm" && len(call.args) > 0 {
		return scriptCall{}, false // options of npm itself
	}
	return call, true
}

var (
	buildName  = regexp.MustCompile(`(?i)(?:^|[:_-])(?:pre)?(?:build|compile|bundle)(?:$|[:_-])`)
	serverName = regexp.MustCompile(`(?i)(?:^|[:_-])(?:dev|develop|watch)(?:$|[:_-])`)
)

// compilers write what they compile or bundle; some only with a subcommand.
var compilers = set("rollup", "webpack", "tsup", "tsdown", "unbuild", "microbundle", "esbuild", "swc", "babel", "ncc", "bunchee", "parcel", "rspack", "rsbuild")

// compiles reports whether a program writes build output.
func compiles(program string, args []string) bool {
	switch {
	case len(args) > 0 && (args[0] == "build" || args[0] == "export" || args[0] == "bundle"):
		return true
	case program == "tsc" || program == "vue-tsc" || program == "tspc" || program == "tsgo":
		return !hasOption(args, "--noEmit", "--noemit", "--version", "-v", "--emitDeclarationOnly")
	}
	return compilers[program] && !compilesOnDemand(program, args)
}

// compilesOnDemand reports whether a program is a development server.
func compilesOnDemand(program string, args []string) bool {
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	switch first {
	case "dev", "develop", "watch":
		return true
	case "serve", "server":
		return slices.Contains([]string{"ng", "webpack", "vite", "vue-cli-service", "rspack", "ember", "parcel"}, program)
	case "start":
		return program == "react-scripts" || program == "docusaurus"
	}
	if program == "vite" || program == "parcel" {
		return first != "build" && first != "preview"
	}
	return program == "webpack-dev-server" || program == "nodemon" || hasOption(args, "--watch", "-w")
}
