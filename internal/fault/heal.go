package fault

import (
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// heals is the specification's table of heal actions, in the order in which they are
// tried. No action weakens a policy.
var heals = map[contract.Class][]contract.HealAction{
	contract.ClassLLM:       {contract.HealCorrectJSON, contract.HealRegenerate, contract.HealStricterSchema, contract.HealLowerTemperature, contract.HealMoreReasoning, contract.HealSaferModel},
	contract.ClassInfra:     {contract.HealOtherWorker, contract.HealOtherProvider},
	contract.ClassAssertion: {contract.HealRepair},
	contract.ClassRuntime:   {contract.HealRerunStrict, contract.HealRepair},
	contract.ClassLogic:     {contract.HealRefinePlan, contract.HealRefineStep},
	contract.ClassConfig:    {contract.HealCreateDefaults},
	contract.ClassSafety:    {contract.HealPolicyCorrection},
	contract.ClassHuman:     {},
}

// healsByCode are the rows of codes for which the row of their class would waste money or do harm.
// Every row ends with a question to a person, except for final codes.
var healsByCode = map[contract.Code][]contract.HealAction{
	// These responses contain no JSON to correct.
	contract.CodeRefusal:         {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealMoreReasoning, contract.HealSaferModel},
	contract.CodeEmptyOutput:     {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealMoreReasoning, contract.HealSaferModel},
	contract.CodeLoop:            {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealMoreReasoning, contract.HealSaferModel},
	contract.CodeHallucination:   {contract.HealRegenerate, contract.HealStricterSchema, contract.HealLowerTemperature, contract.HealMoreReasoning, contract.HealSaferModel},
	contract.CodeTruncated:       {contract.HealLessReasoning, contract.HealRegenerate, contract.HealCompactContext, contract.HealSaferModel},
	contract.CodeContextOverflow: {contract.HealCompactContext, contract.HealRegenerate, contract.HealSaferModel},
	// Another worker would use the same provider.
	contract.CodeRateLimited:    {contract.HealWait, contract.HealOtherProvider},
	contract.CodeQuotaExhausted: {contract.HealOtherProvider, contract.HealWait},
	contract.CodeModelNotFound:  {contract.HealOtherProvider},
	// Another model provider does not help if the machine is at fault.
	contract.CodeDiskFull:     {contract.HealOtherWorker},
	contract.CodeWorkerLost:   {contract.HealOtherWorker},
	contract.CodeDatabaseDown: {contract.HealWait},
	contract.CodeIsolation:    {contract.HealOtherWorker},
	// Agents cannot install software on a worker. The baseline distinguishes this failure from a
	// dependency that the change does not declare, which is a failed assertion.
	contract.CodeMissing: {},
	contract.CodeBlocked: {},
	// The work would also crash the next worker.
	contract.CodeQuarantined: {},
	// The changes exist; they only need to be merged.
	contract.CodeMergeConflict: {contract.HealRepair, contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeEmptyChange:   {contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeStepBudget:    {contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeTooLarge:      {contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeDenied:        {contract.HealPolicyCorrection},
	contract.CodeReview:        {contract.HealRepair},
	// Only a person may decide.
	contract.CodeIntegrity:      {},
	contract.CodeUnauthorized:   {},
	contract.CodeBranchConflict: {},
}

// final are the codes that end a run immediately, without a question, because a person decided or a
// budget is used up.
var final = map[contract.Code]bool{
	contract.CodeCancelled:       true,
	contract.CodeNotChosen:       true,
	contract.CodeRunTimeout:      true,
	contract.CodeRejected:        true,
	contract.CodeApprovalExpired: true,
	contract.CodeBudgetExceeded:  true,
}

// Final reports whether a failure ends its run immediately, without heal actions or a question to a
// person.
func Final(f *contract.Failure) bool { return f != nil && final[f.Code] }

// adviceByClass is the advice to a person for a failure that no heal action fixed.
var adviceByClass = map[contract.Class]string{
	contract.ClassLLM:       "switch to another model (rgpt run switch-model) or clarify the goal, then retry",
	contract.ClassInfra:     "check that the provider, the network and the workers are available, then retry",
	contract.ClassAssertion: "inspect the failing tests; state the cause in the reason, then retry",
	contract.ClassRuntime:   "find out why the command crashed, fix the environment, then retry",
	contract.ClassLogic:     "state in the reason how the plan should differ, then retry",
	contract.ClassConfig:    "fix the configuration or the environment, then retry",
	contract.ClassSafety:    "review the agent's actions; if the goal requires the rejected action, perform it manually; otherwise give up",
	contract.ClassHuman:     "fix the goal or the repository and retry, or give up",
}

// adviceByCode is the advice for codes that are more specific than their class.
var adviceByCode = map[contract.Code]string{
	contract.CodeRefusal:         "rephrase the request in a way that the model accepts and retry with it as the reason, or switch to another model (rgpt run switch-model)",
	contract.CodeTruncated:       "switch to a model that allows longer responses (rgpt run switch-model), or state in the reason how to split the request, then retry",
	contract.CodeContextOverflow: "switch to a model with a larger context window (rgpt run switch-model), or state in the reason which files need not be read, then retry",
	contract.CodeModelNotFound:   "switch to a model that its provider offers (rgpt models, rgpt run switch-model), then retry",
	contract.CodeUnauthorized:    "set a key that the provider accepts (api_key_env or api_key_file in models.providers; check with rgpt doctor), or switch to another model (rgpt run switch-model), then retry",
	contract.CodeBadRequest:      "find out which setting the provider rejects and correct it (models.providers, models.catalogue), or switch to another model (rgpt run switch-model), then retry",
	contract.CodeQuotaExhausted:  "raise the limit at the provider, or switch to another provider (rgpt run switch-model), then retry",
	contract.CodeRateLimited:     "wait until the provider accepts calls again, or switch to another provider (rgpt run switch-model), then retry",
	contract.CodeWorkerLost:      "check that workers are running and have enough memory (rgpt dev status, rgpt doctor), then retry",
	contract.CodeQuarantined:     "check the workers' logs or run rgpt doctor to find out which resource, such as memory or time, is exhausted; provide more of it or reduce the workload, then retry",
	contract.CodeDatabaseDown:    "check that the database responds (rgpt doctor), then retry",
	contract.CodeDiskFull:        "free up disk space on the worker's host, then retry",
	contract.CodeIsolation:       "on the worker's host, fix the sandbox problems that rgpt doctor reports, then retry",
	contract.CodeMissing:         "configure the repository's setup (rgpt env set), or install the missing software on the worker's host, then retry",
	contract.CodeBlocked:         "remove the obstacle that the agent reported, or state in the reason how to proceed without it, then retry",
	contract.CodeInvalidConfig:   "set the value named in the failure, or state in the reason which value to use instead, then retry",
	contract.CodeIntegrity:       "find out why the download does not match its checksum; fix the source or, if the source is known to be right, the checksum, then retry",
	contract.CodeNoTests:         "state in the reason which tests to write, or give up this run and start another with a test command in its verification settings",
	contract.CodeMergeConflict:   "state in the reason how to reconcile the two changes, or which step must come first, then retry",
	contract.CodeBranchConflict:  "check what the release branch contains; rename or delete that branch if it is not needed, then retry",
	contract.CodeStepBudget:      "state in the reason how to split the step or what to omit, then retry; for a larger budget (execution.step), start a new run",
	contract.CodeTooLarge:        "state in the reason how to make the change smaller, then retry",
	contract.CodeDenied:          "state in the reason how to reach the goal without what the policy denies, then retry; if an earlier commit is denied, give up and do the steps again (rgpt run replay RUN --phase builder); or adapt the policy (gate.policies) and start a new run",
	contract.CodeReview:          "read the findings of the review and state in the reason which ones to fix and how, then retry",
	contract.CodeRepository:      "check that the repository and its base commit exist where the run expects them, then retry",
}

// Advice returns the advice to a person for a failure that no heal action fixed. An unknown class
// is treated as RUNTIME_ERROR.
func Advice(class contract.Class, code contract.Code) string {
	if text, ok := adviceByCode[code]; ok {
		return text
	}
	if text, ok := adviceByClass[class]; ok {
		return text
	}
	return adviceByClass[contract.ClassRuntime]
}

// HealOf returns the heal actions for a failure in the order in which they are tried; the last one
// asks a person. It is empty for a final code. An unknown class is treated as RUNTIME_ERROR.
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

// NextAction returns the first untried action for a failure, and whether there is one.
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
		Reason:         fmt.Sprintf("%s in the %s: %s", f.Class, failed, f.Message),
		ActionRequired: Advice(f.Class, f.Code),
	}
}
