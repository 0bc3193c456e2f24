package fault

import (
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// heals is the specification's table of heal actions, in the order in which they are
// tried. No action weakens a policy.
var heals = map[contract.Class][]contract.HealAction{
	contract.ClassLLM:       {contract.HealCorrectJSON, contract.HealRegenerate, contract.HealStricterSchema, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.ClassInfra:     {contract.HealOtherWorker, contract.HealOtherProvider},
	contract.ClassAssertion: {contract.HealRepair},
	contract.ClassRuntime:   {contract.HealRerunStrict, contract.HealRepair},
	contract.ClassLogic:     {contract.HealRefinePlan, contract.HealRefineStep},
	contract.ClassConfig:    {contract.HealCreateDefaults},
	contract.ClassSafety:    {contract.HealPolicyCorrection},
	contract.ClassHuman:     {},
}

// healsByCode are the rows of codes for which the row of their class would waste money
// or do harm. A person is asked at the end of every row except the final ones.
var healsByCode = map[contract.Code][]contract.HealAction{
	// These contain no JSON that could be corrected.
	contract.CodeRefusal:         {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeEmptyOutput:     {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeLoop:            {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeHallucination:   {contract.HealRegenerate, contract.HealStricterSchema, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeTruncated:       {contract.HealRegenerate, contract.HealCompactContext, contract.HealSaferModel},
	contract.CodeContextOverflow: {contract.HealCompactContext, contract.HealRegenerate, contract.HealSaferModel},
	// Another worker uses the same provider.
	contract.CodeRateLimited:    {contract.HealWait, contract.HealOtherProvider},
	contract.CodeQuotaExhausted: {contract.HealOtherProvider, contract.HealWait},
	contract.CodeModelNotFound:  {contract.HealOtherProvider},
	// Another model provider does not fix a machine.
	contract.CodeDiskFull:     {contract.HealOtherWorker},
	contract.CodeWorkerLost:   {contract.HealOtherWorker},
	contract.CodeDatabaseDown: {contract.HealWait},
	contract.CodeIsolation:    {contract.HealOtherWorker},
	// No agent can install on a worker. The baseline tells this from a dependency that the
	// change itself forgot to declare, which is a failed assertion.
	contract.CodeMissing: {},
	contract.CodeBlocked: {},
	// It would kill the next worker too.
	contract.CodeQuarantined: {},
	// The changes exist, and only have to be merged.
	contract.CodeMergeConflict: {contract.HealRepair, contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeEmptyChange:   {contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeStepBudget:    {contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeTooLarge:      {contract.HealRefineStep, contract.HealRefinePlan},
	// Only a person may decide.
	contract.CodeIntegrity:      {},
	contract.CodeUnauthorized:   {},
	contract.CodeBranchConflict: {},
}

// final are the codes that end a run at once: a person or a budget has decided, and no
// question is asked.
var final = map[contract.Code]bool{
	contract.CodeCancelled:       true,
	contract.CodeRunTimeout:      true,
	contract.CodeRejected:        true,
	contract.CodeApprovalExpired: true,
	contract.CodeBudgetExceeded:  true,
}

// Final reports whether a failure ends its run at once: nothing is tried, and nobody is
// asked.
func Final(f *contract.Failure) bool { return f != nil && final[f.Code] }

// adviceByClass is what a person can do about a failure that nothing fixed.
var adviceByClass = map[contract.Class]string{
	contract.ClassLLM:       "switch the model (rgpt run switch-model) or make the goal clearer, then let it try again",
	contract.ClassInfra:     "check that the provider, the network and the workers are up, then let it try again",
	contract.ClassAssertion: "look at the failing tests; give the cause in the reason, then let it try again",
	contract.ClassRuntime:   "find out why the command crashed, fix the environment, then let it try again",
	contract.ClassLogic:     "say in the reason how the plan should differ, then let it try again",
	contract.ClassConfig:    "set what is missing in the configuration or the environment, then let it try again",
	contract.ClassSafety:    "look at what the agent tried; if the goal needs it, do that part manually; otherwise give up",
	contract.ClassHuman:     "fix the goal or the repository, then let it try again, or give up",
}

// adviceByCode is the advice for codes that are more specific than their class.
var adviceByCode = map[contract.Code]string{
	contract.CodeRefusal:         "restate the request in the reason so that the model does not decline, or switch the model (rgpt run switch-model), then let it try again",
	contract.CodeTruncated:       "switch to a model that allows longer responses (rgpt run switch-model), or say in the reason how to do less at a time, then let it try again",
	contract.CodeContextOverflow: "switch to a model with a larger context window (rgpt run switch-model), or say in the reason what does not need to be read, then let it try again",
	contract.CodeModelNotFound:   "switch to a model that its provider offers (rgpt models, rgpt run switch-model), then let it try again",
	contract.CodeUnauthorized:    "set a key that the provider accepts (models.providers, api_key_env or api_key_file; rgpt doctor), or switch the model (rgpt run switch-model), then let it try again",
	contract.CodeBadRequest:      "find out what the provider rejects and fix its settings (models.providers, models.catalogue), or switch the model (rgpt run switch-model), then let it try again",
	contract.CodeQuotaExhausted:  "raise the limit at the provider, or switch to another one (rgpt run switch-model), then let it try again",
	contract.CodeRateLimited:     "wait until the provider accepts calls again, or switch to another one (rgpt run switch-model), then let it try again",
	contract.CodeWorkerLost:      "check that workers are running and have enough memory (rgpt dev status, rgpt doctor), then let it try again",
	contract.CodeQuarantined:     "find out from the workers' logs which resource runs out (memory, time; rgpt doctor), give the workers more of it or make the work smaller, then let it try again",
	contract.CodeDatabaseDown:    "check that the database responds (rgpt doctor), then let it try again",
	contract.CodeDiskFull:        "free disk space on the worker's host, then let it try again",
	contract.CodeIsolation:       "fix what rgpt doctor reports about the sandbox on the worker's host, then let it try again",
	contract.CodeMissing:         "configure the setup of the repository (rgpt env set), or install what the failure names on the worker's host, then let it try again",
	contract.CodeBlocked:         "remove the obstacle that the agent names, or say in the reason how to do without it, then let it try again",
	contract.CodeInvalidConfig:   "set the value that the failure names, or say in the reason which value to use instead, then let it try again",
	contract.CodeIntegrity:       "find out why the download does not match its checksum; fix the source or, if the source is known to be right, the checksum, then let it try again",
	contract.CodeNoTests:         "say in the reason which tests to write, or give up this run and start one whose verification has a test command",
	contract.CodeMergeConflict:   "say in the reason how to reconcile the two changes, or which step must come first, then let it try again",
	contract.CodeBranchConflict:  "check what the release branch contains; rename or delete that branch if it is not needed, then let it try again",
	contract.CodeStepBudget:      "say in the reason how to split the step or what to leave out, then let it try again; for a larger budget (execution.step) start a new run",
	contract.CodeTooLarge:        "say in the reason how to make the change smaller, then let it try again",
	contract.CodeRepository:      "check that the repository and its base commit exist where the run expects them, then let it try again",
}

// Advice returns what a person can do about a failure that nothing fixed. An unknown
// class has that of RUNTIME_ERROR.
func Advice(class contract.Class, code contract.Code) string {
	if text, ok := adviceByCode[code]; ok {
		return text
	}
	if text, ok := adviceByClass[class]; ok {
		return text
	}
	return adviceByClass[contract.ClassRuntime]
}

// HealOf returns the heal actions for a failure in the order in which they are tried;
// the last one asks a person. It is empty if nothing may be done. An unknown class has
// the row of RUNTIME_ERROR.
func HealOf(class contract.Class, code contract.Code) []contract.HealAction {
	if final[code] {
		return nil
	}
	row, ok := healsByCode[code]
	if !ok {
		row, ok = heals[class]
	}
	if !ok {
		row = heals[contract.ClassRuntime]
	}
	return append(slices.Clone(row), contract.HealAskPerson)
}

// NextAction returns the first action for a failure that was not tried yet, and whether
// there is one.
func NextAction(f *contract.Failure, tried []contract.HealAction) (contract.HealAction, bool) {
	if f == nil {
		return "", false
	}
	for _, action := range HealOf(f.Class, f.Code) {
		if !slices.Contains(tried, action) {
			return action, true
		}
	}
	return "", false
}

// QuestionAbout returns the question to a person when no action is left.
func QuestionAbout(p contract.Phase, step string, f *contract.Failure) *contract.Question {
	failed := string(p)
	if step != "" {
		failed += " (" + step + ")"
	}
	return &contract.Question{
		Reason:         fmt.Sprintf("%s of the %s: %s", f.Class, failed, f.Message),
		ActionRequired: Advice(f.Class, f.Code),
	}
}
