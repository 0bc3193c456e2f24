// Package tool contains the tools that agents may call. Each tool has its own file, with its
// description for models next to it.
//
// A failure that the model should see is a Result; a Go error means that the call could not be
// carried out, and may succeed if it is repeated. Files are accessed only below the workspace,
// through os.Root, regardless of paths and symbolic links; commands run only in the sandbox.
package tool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Names of the built-in tools.
const (
	ReadFile   = "read_file"
	ListFiles  = "list_files"
	Search     = "search"
	EditFile   = "edit_file"
	CreateFile = "create_file"
	DeleteFile = "delete_file"
	RevertFile = "revert_file"
	Diff       = "diff"
	History    = "history"
	RunCommand = "run_command"
	Check      = "check"
	CheckBase  = "check_base"
	ReadOutput = "read_output"
	Todo       = "todo"
	Summarize  = "summarize"
	AskBrain   = "ask_brain"
	// ProposeSetup is only for the environment agent.
	ProposeSetup = "propose_setup"
	Finish       = "finish"
)

// Definition describes a tool to models, and how its calls are scheduled.
type Definition struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of the arguments, an object
	ReadOnly    bool            // does not change the workspace, so calls may run in parallel
	Long        bool            // may take more than 2 s
	Commands    bool            // runs commands of the model in the sandbox
}

// Result is the outcome of a call that was carried out.
type Result struct {
	OK bool
	// Code is the machine-readable reason for a failure: path_escape, forbidden, invalid_output,
	// timeout, command_crashed. It is empty for ordinary failures, such as a missing file or a
	// command that exits with an error.
	Code    contract.Code
	Text    string // text shown to the model
	Changed bool   // the workspace may have changed
	Path    string // with Changed: the only file that may have changed; "" if it could be any
	Finish  bool   // the model reports that it is done
	Summary string // of the model's work, with Finish
	Blocked string // obstacle, with Finish; empty if the task is done
}

// Env is the environment of a call.
type Env struct {
	// Root is the workspace's directory on this host.
	Root string
	// Runner runs commands; nil if an agent has none.
	Runner Runner
	// Command is the template of the agent's commands: limits, environment, network, additional
	// paths. The call sets Shell, Root and OnOutput, and the timeout if the model requests a
	// shorter one.
	Command sandbox.Command
	// Base checks out the base commit for one command: it returns the command to complete, and a
	// function to call after the command has exited. It is nil if there is no base.
	Base func(ctx context.Context) (c sandbox.Command, done func(), err error)
	// Brain answers a question about the repository with parts of its files, or "" if it finds nothing.
	// It is nil if the repository has no index.
	Brain func(ctx context.Context, query string) (string, error)
	// Propose checks the form of a proposed setup and returns the problem, or "" if there is none.
	// It is nil if proposals are not accepted.
	Propose func(p SetupProposal) string
	// Planning is for the planner's own tools; nil for all other agents.
	Planning *Planning
	// Diff returns the unified diff from the base commit to the workspace, of one path if it is not
	// empty. It is nil if there is no base.
	Diff func(ctx context.Context, path string) (string, error)
	// Earlier returns a file as it was at an earlier time. It is nil if there is no such time.
	Earlier func(ctx context.Context, path string, at Time) (EarlierFile, error)
	// History describes how a path came about, as far as that is known. It is nil without history.
	History func(ctx context.Context, q HistoryQuery) (text string, known bool, err error)
	// Check carries out a check of the project by its name, on the base commit or on the workspace.
	// It is nil if there are no checks.
	Check func(ctx context.Context, name string, onBase bool) (CheckReport, error)
	// Keep stores a text that is too long for a result, and returns the id with which read_output
	// finds it. Without it, what does not fit is lost.
	Keep func(ctx context.Context, text string) (id string, err error)
	// Kept returns a stored text by its id: of a long output, a log, or an earlier result of the
	// conversation. It is nil if nothing is stored.
	Kept func(ctx context.Context, id string) (text string, found bool, err error)
	// Limits restrict what a call reads, writes and returns.
	Limits Limits
	// OnOutput receives a command's output live. May be nil.
	OnOutput func(stream sandbox.Stream, chunk []byte)
}

// Time is a time in the past of a workspace.
type Time string

// The times to which a file can be reverted.
const (
	AtBase Time = "base" // the run's base commit
	AtStep Time = "step" // the beginning of the agent's work
)

// EarlierFile is a file as it was.
type EarlierFile struct {
	Exists     bool
	Special    bool // not a regular file, or too large to be restored
	Executable bool
	Content    []byte
}

// HistoryQuery asks for the history of a path and, with lines, for their origin.
type HistoryQuery struct {
	Path        string
	First, Last int // 0: no lines
}

// CheckReport is the outcome of a check for an agent.
type CheckReport struct {
	Unknown bool     // there is no such check
	Names   []string // of all checks, if it is unknown
	OK      bool
	Text    string // outcome and failures, and how to read the whole output
}

// Runner runs commands in isolation.
type Runner interface {
	Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error)
}

// Limits restrict one call. A zero field means its value in DefaultLimits.
type Limits struct {
	ReadBytes       int   // text that read_file returns
	LineBytes       int   // of a line that read_file and search return
	WriteBytes      int   // size of a file that create_file or edit_file creates or changes
	ListEntries     int   // files that list_files returns
	SearchHits      int   // lines that search finds
	SearchFileBytes int64 // larger files are not searched
	WalkEntries     int   // files that list_files and search visit
	AnswerBytes     int   // of the lines that list_files and search return
	OutputBytes     int   // of each output stream of a command, and of a diff, in the result
	PageBytes       int   // of stored output that read_output returns
	KeepBytes       int   // of an output that is stored because it is too long for a result

	WalkTime       time.Duration // that list_files and search may take to visit files
	CommandTimeout time.Duration // of a command whose call sets none
	MaxTimeout     time.Duration // longest timeout that a call may request
}

// DefaultLimits suffice for normal work and keep one result within a small part of a model's
// context window.
var DefaultLimits = Limits{
	ReadBytes:       256 << 10,
	LineBytes:       2000,
	WriteBytes:      1 << 20,
	ListEntries:     2000,
	SearchHits:      200,
	SearchFileBytes: 1 << 20,
	WalkEntries:     200_000,
	AnswerBytes:     64 << 10,
	OutputBytes:     16 << 10,
	PageBytes:       32 << 10,
	KeepBytes:       4 << 20,
	WalkTime:        20 * time.Second,
	CommandTimeout:  2 * time.Minute,
	MaxTimeout:      10 * time.Minute,
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	return Limits{
		ReadBytes:       positive(l.ReadBytes, d.ReadBytes),
		LineBytes:       positive(l.LineBytes, d.LineBytes),
		WriteBytes:      positive(l.WriteBytes, d.WriteBytes),
		ListEntries:     positive(l.ListEntries, d.ListEntries),
		SearchHits:      positive(l.SearchHits, d.SearchHits),
		SearchFileBytes: positive(l.SearchFileBytes, d.SearchFileBytes),
		WalkEntries:     positive(l.WalkEntries, d.WalkEntries),
		AnswerBytes:     positive(l.AnswerBytes, d.AnswerBytes),
		OutputBytes:     positive(l.OutputBytes, d.OutputBytes),
		PageBytes:       positive(l.PageBytes, d.PageBytes),
		KeepBytes:       positive(l.KeepBytes, d.KeepBytes),
		WalkTime:        positive(l.WalkTime, d.WalkTime),
		CommandTimeout:  positive(l.CommandTimeout, d.CommandTimeout),
		MaxTimeout:      positive(l.MaxTimeout, d.MaxTimeout),
	}
}

func positive[T ~int | ~int64](value, fallback T) T {
	if value <= 0 {
		return fallback
	}
	return value
}

// Tool is one tool. Its arguments have been validated against its schema.
type Tool interface {
	Definition() Definition
	Call(ctx context.Context, env Env, args json.RawMessage) (Result, error)
}

// Registry contains tools by name.
type Registry struct{ tools []entry }

type entry struct {
	tool       Tool
	definition Definition
	schema     *schema
}

// NewRegistry returns a registry of tools. A duplicate name or an invalid schema is an error.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{}
	for _, t := range tools {
		d := t.Definition()
		if _, ok := r.find(d.Name); ok || d.Name == "" {
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "two tools are named %q, or a tool has no name", d.Name)
		}
		s, err := compile(d.Parameters)
		if err != nil {
			return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the tool %s has no valid schema for its arguments", d.Name)
		}
		r.tools = append(r.tools, entry{tool: t, definition: d, schema: s})
	}
	return r, nil
}

// Builtin returns the registry of the built-in tools.
func Builtin() *Registry {
	r, err := NewRegistry(
		readFile(), listFiles(), search(), editFile(), createFile(), deleteFile(), revertFile(), diff(), history(),
		runCommand(), check(), checkBase(), readOutput(), todo(), summarize(), askBrain(), proposeSetup(), finish(),
	)
	if err != nil {
		panic(err) //nolint:forbidigo // an error in this package, which its tests detect
	}
	return r
}

func (r *Registry) find(name string) (entry, bool) {
	i := slices.IndexFunc(r.tools, func(e entry) bool { return e.definition.Name == name })
	if i < 0 {
		return entry{}, false
	}
	return r.tools[i], true
}

// Names returns the names of all tools, in order.
func (r *Registry) Names() []string {
	names := make([]string, len(r.tools))
	for i, e := range r.tools {
		names[i] = e.definition.Name
	}
	return names
}

// ForWork returns the names of the tools of agents that work on a goal.
func (r *Registry) ForWork() []string {
	return slices.DeleteFunc(r.Names(), func(name string) bool { return name == ProposeSetup })
}

// ForSetup returns the names of the tools of the environment agent, which changes
// no file of the repository.
func (r *Registry) ForSetup() []string {
	return slices.DeleteFunc(r.Names(), func(name string) bool {
		return slices.Contains([]string{EditFile, CreateFile, DeleteFile, RevertFile, Diff, History, Check, CheckBase, AskBrain}, name)
	})
}

// Set returns the tools that an agent may use; all if no names are given.
func (r *Registry) Set(names ...string) (*Set, error) {
	if len(names) == 0 {
		names = r.Names()
	}
	for _, name := range names {
		if _, ok := r.find(name); !ok {
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "unknown tool %q; available tools: %s", name, strings.Join(r.Names(), ", "))
		}
	}
	return &Set{registry: r, allowed: slices.Clone(names)}, nil
}

// Set contains the tools that one agent may use.
type Set struct {
	registry *Registry
	allowed  []string
}

// Definitions returns the tools of the set in the registry's order.
func (s *Set) Definitions() []Definition {
	var all []Definition
	for _, e := range s.registry.tools {
		if slices.Contains(s.allowed, e.definition.Name) {
			all = append(all, e.definition)
		}
	}
	return all
}

// Definition returns the definition of a tool of the set.
func (s *Set) Definition(name string) (Definition, bool) {
	e, ok := s.registry.find(name)
	return e.definition, ok && slices.Contains(s.allowed, name)
}

// Call carries out a model's call. For an unknown tool or arguments that violate its schema, the
// result has code invalid_output; for a tool that is not in the set, code forbidden.
func (s *Set) Call(ctx context.Context, env Env, name string, args json.RawMessage) (Result, error) {
	e, ok := s.registry.find(name)
	if !ok {
		return failed(contract.CodeInvalidOutput, "Unknown tool %q. Available tools: %s.", fault.Clip(name, 100), strings.Join(s.names(), ", ")), nil
	}
	if !slices.Contains(s.allowed, name) {
		return failed(contract.CodeForbidden, "The tool %s is not allowed here. Allowed tools: %s.", name, strings.Join(s.names(), ", ")), nil
	}
	if len(strings.TrimSpace(string(args))) == 0 {
		args = json.RawMessage("{}")
	}
	args = e.schema.withoutNulls(args)
	if problem := e.schema.check(args); problem != "" {
		return badArguments(e.definition, problem), nil
	}
	env.Limits = env.Limits.withDefaults()
	return e.tool.Call(ctx, env, args)
}

func (s *Set) names() []string {
	var names []string
	for _, d := range s.Definitions() {
		names = append(names, d.Name)
	}
	return names
}

// repeatedSchema is the size up to which the schema of a tool is repeated to a model whose arguments do
// not match it. The model has it already.
const repeatedSchema = 600

func badArguments(d Definition, problem string) Result {
	again := "the schema of its parameters"
	if len(d.Parameters) <= repeatedSchema {
		again = "this schema: " + string(d.Parameters)
	}
	return failed(contract.CodeInvalidOutput, "The arguments of %s are not valid: %s. They must be a JSON object that matches %s.", d.Name, problem, again)
}
