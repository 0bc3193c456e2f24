package fault

import (
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// heals is the specification's table of heal actions, in the order in which they
// are tried. What a class may do never weakens a policy.
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

// healsByCode are the rows of codes for which the row of their class would waste
// money or do harm. A person is asked at the end of every row but the final ones.
var healsByCode = map[contract.Code][]contract.HealAction{
	// There is no JSON in these that could be corrected.
	contract.CodeRefusal:         {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeEmptyOutput:     {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeLoop:            {contract.HealRegenerate, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeHallucination:   {contract.HealRegenerate, contract.HealStricterSchema, contract.HealLowerTemperature, contract.HealSaferModel},
	contract.CodeTruncated:       {contract.HealRegenerate, contract.HealCompactContext, contract.HealSaferModel},
	contract.CodeContextOverflow: {contract.HealCompactContext, contract.HealRegenerate, contract.HealSaferModel},
	// Another worker meets the same provider.
	contract.CodeRateLimited:    {contract.HealWait, contract.HealOtherProvider},
	contract.CodeQuotaExhausted: {contract.HealOtherProvider, contract.HealWait},
	contract.CodeModelNotFound:  {contract.HealOtherProvider},
	// Another model provider is no cure for a machine.
	contract.CodeDiskFull:     {contract.HealOtherWorker},
	contract.CodeWorkerLost:   {contract.HealOtherWorker},
	contract.CodeDatabaseDown: {contract.HealWait},
	contract.CodeIsolation:    {contract.HealOtherWorker},
	// What is missing is most often missing in the repository's manifest.
	contract.CodeMissing: {contract.HealRepair, contract.HealCreateDefaults},
	// The changes are there, and only have to be brought together.
	contract.CodeMergeConflict: {contract.HealRepair, contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeEmptyChange:   {contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeStepBudget:    {contract.HealRefineStep, contract.HealRefinePlan},
	contract.CodeTooLarge:      {contract.HealRefineStep, contract.HealRefinePlan},
	// Only a person may decide.
	contract.CodeIntegrity:       {},
	contract.CodeUnauthorized:    {},
	contract.CodeBudgetExceeded:  {},
	contract.CodeBranchConflict:  {},
	contract.CodeRejected:        {},
	contract.CodeApprovalExpired: {},
}

// final are the codes that end a run: it was stopped on purpose, or its time is
// over, and nobody waits for a question.
var final = map[contract.Code]bool{
	contract.CodeCancelled:  true,
	contract.CodeRunTimeout: true,
}

// HealOf returns the heal actions for a failure in the order in which they are
// tried; the last one asks a person. It is empty where nothing may be done. An
// unknown class has the row of RUNTIME_ERROR.
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

// NextAction returns the first action for a failure that was not tried yet, and
// whether there is one.
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
