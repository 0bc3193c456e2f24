// Package prompt holds the prompts of agents: templates as files, rendered with a task's facts. A
// prompt's version is the digest of its templates, so that every response can be traced to the text
// of its prompt.
package prompt

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

//go:embed templates/*.tmpl
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"fence": fence,
	"plain": defused,
	"input": PlannerInput,
	"join":  strings.Join,
}).ParseFS(files, "templates/*.tmpl"))

// Prompt is a rendered prompt: the model's role (System), its task (Task), and the version of their
// templates.
type Prompt struct {
	Name    string // planner, builder
	Version string // planner@1a2b3c4d5e6f
	System  string
	Task    string
	// Pictures come with the task, as references to the artifact store.
	Pictures []model.Image
}

// Excerpt is the beginning of a file, included in a prompt.
type Excerpt struct {
	Name string
	Text string
}

// PlannerTask is the data for the planner's prompt.
type PlannerTask struct {
	GoalTitle       string
	GoalDescription string
	EarlierWork     []Excerpt // of the runs before on the branch; nil if the run makes its own
	Pictures        []string  // names of the goal's pictures
	Consensus       string    // of a deliberation about the goal; empty if there was none
	Lessons         Lessons
	Project         *Project // nil if nothing is known
	Branch          string
	Base            string
	Files           Overview
	Excerpts        []Excerpt
	Input           *contract.PlannerInput // what a person answered in an earlier attempt; nil: nothing
	Turns           int                    // model calls in which the planner can read; at most 1: it makes its plan at once
}

// EarlierWorkBytes limits the description of the earlier work on a branch in a prompt, which is paid
// for with each call of a conversation.
const EarlierWorkBytes = 32 << 10

// BuilderTask is the data for the builder's prompt for a step.
type BuilderTask struct {
	GoalTitle       string
	GoalDescription string
	EarlierWork     []Excerpt // of the runs before on the branch; nil if the run makes its own
	Pictures        []string  // names of the goal's pictures
	PlanSummary     string
	Notes           []Note // of the planner
	Lessons         Lessons
	Project         *Project // nil if nothing is known
	Step            contract.Step
	Earlier         *Earlier // the attempt that this one continues, nil for none
	Repository
}

// Repository describes the repository in a task: Files and Conventions are the same for all agents of
// a run, so that providers can cache the beginning of their tasks.
type Repository struct {
	Files       Overview
	Conventions []Excerpt // its own instructions for agents

	LocalConventions []Excerpt // those of the directories that matter for the task
	Nearby           string    // the files in these directories
}

// Overview describes the files of a repository: by a map of what matters for a goal, or by a list of its
// files or directories.
type Overview struct {
	Text string
	Map  bool // Text is a map
	Late bool // the index that a map needs is not ready
}

// Earlier summarizes an attempt whose conversation became too long.
type Earlier struct {
	Text string
	Kept bool // the repository is as that attempt left it
}

// Planner renders the planner's prompt.
func Planner(task PlannerTask) (Prompt, error) { return render("planner", task) }

// Builder renders the builder's prompt for a step.
func Builder(task BuilderTask) (Prompt, error) { return render("builder", task) }

// PlannerInput renders the answer to a planner's question. The option is a text of a model, even if a
// person chose it.
func PlannerInput(in *contract.PlannerInput) string {
	text := "A person chose this option:\n"
	if in.By == "" {
		text = "Nobody answered in time, so the default applies:\n"
	}
	text += fence("option", in.Option)
	if in.Words != "" {
		text += "\nThey added: " + in.Words
	}
	return text + "\nPlan for what it means."
}

// PlanReview renders the request to a planner to review its plan, with what code found wrong with it.
func PlanReview(goal string, findings []contract.PlanFinding) (string, error) {
	lines := make([]string, len(findings))
	for i, f := range findings {
		lines[i] = "- " + f.Text
	}
	return executed("plan_review", map[string]string{"Goal": goal, "Findings": strings.Join(lines, "\n")})
}

// render executes the pair of templates with a name: the agent's role, and its task.
func render(name string, task any) (Prompt, error) {
	version, err := versionOf(name)
	if err != nil {
		return Prompt{}, err
	}
	var system, user strings.Builder
	if err := templates.ExecuteTemplate(&system, name+".md.tmpl", nil); err != nil {
		return Prompt{}, fmt.Errorf("render the prompt %s: %w", name, err)
	}
	if err := templates.ExecuteTemplate(&user, name+"_task.md.tmpl", task); err != nil {
		return Prompt{}, fmt.Errorf("render the task of prompt %s: %w", name, err)
	}
	return Prompt{Name: name, Version: version, System: system.String(), Task: user.String()}, nil
}

// versionOf returns the version of a prompt's templates.
func versionOf(name string) (string, error) {
	hash := sha256.New()
	for _, file := range []string{name + ".md.tmpl", name + "_task.md.tmpl", "lessons.md.tmpl", "agreement.md.tmpl", "project.md.tmpl", "notes.md.tmpl", "repository.md.tmpl", "earlier_work.md.tmpl", "pictures.md.tmpl"} {
		text, err := files.ReadFile("templates/" + file)
		if err != nil {
			return "", fmt.Errorf("read the prompt template %s: %w", file, err)
		}
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	return name + "@" + hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// fence marks hostile text as data. A closing mark inside it is defused, so that the
// text cannot end its own fence.
func fence(name, text string) string {
	return "<untrusted name=\"" + strings.NewReplacer(`"`, "'", "\n", " ", "<", "(", ">", ")").Replace(name) + "\">\n" +
		strings.TrimRight(defused(text), "\n") + "\n</untrusted>"
}

// fenceLike matches text that a reader may mistake for the beginning or the end of a fence.
var fenceLike = regexp.MustCompile(`(?i)<(\s*/?\s*untrusted)`)

// defused changes a text so that it cannot end its fence.
func defused(text string) string { return fenceLike.ReplaceAllString(text, "<\u200b$1") }

// Unfenced returns a hostile text for a place outside of a fence, where it can neither begin nor end one.
func Unfenced(text string) string { return defused(text) }

// fenceLine matches what fence adds to a text.
var fenceLine = regexp.MustCompile(`(?m)^<untrusted name="([^"\n<>]*)">\n|\n</untrusted>$`)

// Shown returns a text for people: the name of each fence stands on a line before its text. Do not put the result
// into a prompt: without fences, hostile text in it could pass for instructions.
func Shown(text string) string {
	text = fenceLine.ReplaceAllStringFunc(text, func(mark string) string {
		if name := fenceLine.FindStringSubmatch(mark)[1]; name != "" {
			return name + ":\n"
		}
		return ""
	})
	return strings.ReplaceAll(text, "<\u200b", "<")
}

// Fenced marks a text as data for a model, outside of a template.
func Fenced(name, text string) string { return fence(name, text) }
