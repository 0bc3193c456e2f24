package eval

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Load reads a set from a file: YAML, or JSON lines with one task each. The lines can have the
// fields of a Task, or those of SWE-bench and SWE-rebench. Errors are CONFIG_ERRORs that name the
// file and the task.
func Load(file string) (Set, error) {
	data, err := read(file)
	if err != nil {
		return Set{}, err
	}
	var s Set
	switch filepath.Ext(file) {
	case ".yaml", ".yml":
		err = decodeYAML(data, &s)
	case ".jsonl", ".json", ".ndjson":
		s, err = Lines(bytes.NewReader(data))
	default:
		err = errors.New("its name must end in .yaml, .yml, .jsonl, .json or .ndjson")
	}
	if err == nil {
		s.Name = cmp.Or(s.Name, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
		for i := range s.Tasks {
			s.Tasks[i].Repo = relativeTo(filepath.Dir(file), s.Tasks[i].Repo)
		}
		err = s.Check()
	}
	if err != nil {
		return Set{}, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the set %s cannot be used", file)
	}
	return s, nil
}

// relativeTo resolves a path that starts with a dot against the directory of the set.
func relativeTo(dir, repo string) string {
	if !strings.HasPrefix(repo, "./") && !strings.HasPrefix(repo, "../") && repo != "." {
		return repo
	}
	if abs, err := filepath.Abs(filepath.Join(dir, repo)); err == nil {
		return abs
	}
	return repo
}

// read reads a regular file of limited size.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot read the set %s", file)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, MaxFile+1))
	}
	if err == nil && len(data) > MaxFile {
		err = fmt.Errorf("it is larger than %d bytes", MaxFile)
	}
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot read the set %s", file)
	}
	return data, nil
}

func decodeYAML(data []byte, s *Set) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	return d.Decode(s)
}

// LoadVariants reads a YAML file with a list of variants.
func LoadVariants(file string) ([]Variant, error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	var s struct {
		Variants []Variant `yaml:"variants"`
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err = d.Decode(&s); err == nil {
		err = CheckVariants(s.Variants)
	}
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the variants in %s cannot be used", file)
	}
	return s.Variants, nil
}

// Lines reads tasks from JSON lines.
func Lines(r io.Reader) (Set, error) {
	var s Set
	in := bufio.NewScanner(r)
	in.Buffer(nil, MaxFile)
	for number := 1; in.Scan(); number++ {
		line := bytes.TrimSpace(in.Bytes())
		if len(line) == 0 {
			continue
		}
		t, err := parseLine(line)
		if err != nil {
			return s, fmt.Errorf("line %d: %w", number, err)
		}
		if s.Tasks = append(s.Tasks, t); len(s.Tasks) > MaxTasks {
			return s, fmt.Errorf("it has more than %d tasks", MaxTasks)
		}
	}
	return s, in.Err()
}

func parseLine(line []byte) (Task, error) {
	var kind struct {
		InstanceID string `json:"instance_id"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return Task{}, err
	}
	if kind.InstanceID != "" {
		return parseInstance(line)
	}
	var t Task
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return t, d.Decode(&t)
}

// instance is a task of SWE-bench or SWE-rebench. Fields that are not used are left out.
type instance struct {
	ID        string   `json:"instance_id"`
	Repo      string   `json:"repo"`
	Base      string   `json:"base_commit"`
	Problem   string   `json:"problem_statement"`
	Patch     string   `json:"patch"`
	TestPatch string   `json:"test_patch"`
	Fail      names    `json:"FAIL_TO_PASS"`
	Pass      names    `json:"PASS_TO_PASS"`
	Install   *install `json:"install_config"`
}

// install says how SWE-rebench sets up an instance and runs its tests.
type install struct {
	Python     string `json:"python"`
	Install    names  `json:"install"`
	PreInstall names  `json:"pre_install"`
	Packages   names  `json:"pip_packages"`
	Reqs       names  `json:"reqs_path"`
	Test       string `json:"test_cmd"`
}

// names is a list of texts. Published sets also write it as a text with JSON in it, as one text, or as null.
type names []string

// UnmarshalJSON reads any of these forms.
func (n *names) UnmarshalJSON(data []byte) error {
	var list []string
	if err := json.Unmarshal(data, &list); err == nil {
		*n = list
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%.60s is neither a list of texts nor a text", data)
	}
	if err := json.Unmarshal([]byte(text), &list); err == nil {
		*n = list
	} else if text != "" {
		*n = []string{text}
	}
	return nil
}

// parseInstance turns an instance into a task.
func parseInstance(line []byte) (Task, error) {
	var in instance
	if err := json.Unmarshal(line, &in); err != nil {
		return Task{}, err
	}
	title, description, _ := strings.Cut(strings.TrimSpace(in.Problem), "\n")
	t := Task{
		ID: in.ID, Repo: in.Repo, Base: in.Base, Goal: Goal{Title: strings.TrimSpace(title), Description: strings.TrimSpace(description)},
		Tests: Tests{Patch: in.TestPatch}, FailToPass: in.Fail, PassToPass: in.Pass, Solution: in.Patch,
	}
	files, err := PatchFiles(in.TestPatch)
	if err != nil {
		return t, fmt.Errorf("%s: test_patch: %w", in.ID, err)
	}
	command := "python -m pytest"
	if i := in.Install; i != nil {
		t.Environment = i.environment()
		command = cmp.Or(i.Test, command)
	}
	t.Tests.Command, t.Tests.Format, t.Tests.Report = testCommand(command, files)
	return t, nil
}

// environment returns the section environment of rgpt.yaml for an instance.
func (i install) environment() map[string]any {
	setup := slices.Clone(i.PreInstall)
	for _, file := range i.Reqs {
		setup = append(setup, "python -m pip install -r "+quote(file))
	}
	if len(i.Packages) > 0 {
		line := "python -m pip install"
		for _, p := range i.Packages {
			line += " " + quote(p)
		}
		setup = append(setup, line)
	}
	setup = append(setup, i.Install...)
	if len(setup) == 0 {
		return nil
	}
	out := make([]any, len(setup))
	for k, command := range setup {
		out[k] = command
	}
	return map[string]any{"setup": out}
}

// quote quotes a text for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// report is where the tests of an instance write their results. The directory is that of the product's own
// reports, which no repository has.
const report = ".rgpt-eval.xml"

var pytest = regexp.MustCompile(`(^|[\s/])(pytest|py\.test)(\s|$)`)

// testCommand returns the command that runs the test files of an instance.
func testCommand(command string, files []string) (full, format, reportFile string) {
	for _, f := range files {
		if strings.HasSuffix(f, ".py") {
			command += " " + quote(f)
		}
	}
	if !pytest.MatchString(command) {
		return command, "", ""
	}
	return command + " --junitxml=" + report, "junit", report
}

// PatchFiles returns the files that a git patch names, sorted.
func PatchFiles(patch string) ([]string, error) {
	files, _, err := gitdiff.Parse(strings.NewReader(patch))
	if err != nil {
		return nil, fmt.Errorf("it is not a git patch: %w", err)
	}
	var out []string
	for _, f := range files {
		for _, name := range []string{f.OldName, f.NewName} {
			if name != "" && name != "/dev/null" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// WriteYAML writes a set as a YAML file.
func WriteYAML(w io.Writer, s Set) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("write the set: %w", err)
	}
	return e.Close()
}

// WriteLines writes the tasks of a set as JSON lines.
func WriteLines(w io.Writer, s Set) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, t := range s.Tasks {
		if err := e.Encode(t); err != nil {
			return fmt.Errorf("write the set: %w", err)
		}
	}
	return nil
}
