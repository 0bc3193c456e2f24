package prompt

import "github.com/rocketgpt/orchestrator/contract"

// Lessons describe earlier failed attempts for the next one.
type Lessons struct {
	Heals      []Lesson
	Strict     bool // only proven results count as done
	Generation int  // of the agent; above 1, it replaces a revoked agent
}

// Lesson is one failed attempt and what to do differently.
type Lesson struct {
	ErrorType contract.Class
	Code      contract.Code
	Message   string
	Evidence  string // of the failure, such as a response or failing tests
	Action    contract.HealAction
	Words     string // of a person who was asked
}

// Instruction returns the instruction for the next attempt after the heal's action.
func (l Lesson) Instruction() string { return instructions[l.Action] }

const machinery = "The infrastructure failed, not your work. Try again."

// instructions are the texts with which a heal instructs an agent.
var instructions = map[contract.HealAction]string{
	contract.HealCorrectJSON: "Respond again. Correct exactly what was wrong: keep the content and fix the format. " +
		"The response must be one JSON document that matches the schema, with no text before or after it and no code fence.",
	contract.HealRegenerate: "Start over instead of repeating that response. Constraints: use only tools, files and steps that exist; " +
		"keep the response short enough to be complete; respond in the required format and with nothing else.",
	contract.HealCompactContext: "You are given less context than before; omissions are marked. Read only the parts of files that you need, and respond briefly.",
	contract.HealStricterSchema: "The schema is now enforced strictly: include every required field and no other fields, and use exactly the types and " +
		"enumerations that it specifies.",
	contract.HealLowerTemperature: "Respond as plainly and predictably as you can.",
	contract.HealMoreReasoning:    "Think the problem through before you respond; check your response against what was asked.",
	contract.HealLessReasoning:    "Your response was cut off because you reasoned too long. Decide quickly, and respond briefly.",
	contract.HealSaferModel:       "Another model failed at this. Do exactly what was asked, in the simplest way.",
	contract.HealOtherWorker:      machinery,
	contract.HealOtherProvider:    machinery,
	contract.HealWait:             machinery,
	contract.HealRepair:           "The Repair agent has fixed what it could. Build on that.",
	contract.HealRerunStrict: "Repeat the task carefully: check each precondition before you rely on it, and run the project's build or tests " +
		"before you call it done.",
	contract.HealRefinePlan: "Make a better plan: for each point in the critique, ensure that the new plan avoids the problem. " +
		"Each step must exist for a reason and depend only on steps that exist, without cycles; steps that touch the same lines depend on each other.",
	contract.HealRefineStep:     "Do the step differently than before: smaller edits, fewer turns, the most important part first.",
	contract.HealCreateDefaults: "Missing configuration was created from the examples that the repository documents.",
	contract.HealPolicyCorrection: "That broke a rule. The rules have not changed: use only the tools that you are given and only paths inside the " +
		"repository, never touch its .git directory, and never delete or weaken tests. Achieve the goal within these rules; if that is impossible, finish and say so.",
	contract.HealAskPerson: "A person requested another attempt.",
}

// RepairTask is the data for the Repair agent's prompt.
type RepairTask struct {
	GoalTitle       string
	GoalDescription string
	EarlierWork     []Excerpt // of the runs before on the branch; nil if the run makes its own
	GoalPictures    []string  // names of the goal's pictures
	Pictures        []string  // names of screenshots of failed tests, which come after those of the goal
	PlanSummary     string
	Step            contract.Step // of the plan, if the Repair agent continues its work; no id: none
	Phase           contract.Phase
	ErrorType       contract.Class
	Code            contract.Code
	Message         string
	RootCause       string
	Evidence        string
	Review          string    // findings of a review, each of which must be answered
	Earlier         []string  // repairs that did not help: their results and diffs
	Generation      int       // of the agent; above 1, it replaces a revoked agent
	Handoff         string    // of the revoked agent
	Project         *Project  // nil if nothing is known
	Summaries       []Excerpt // of the agents of steps, by step: they often name the cause
	Diff            string    // the change so far
	Logs            []Check   // the whole output of failed checks: their names, and calls that read it
	Repository
}

// Repair renders the prompt of the Repair agent.
func Repair(task RepairTask) (Prompt, error) { return render("repair", task) }
