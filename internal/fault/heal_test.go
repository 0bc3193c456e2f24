package fault_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestEachClassHealsAsTheSpecificationSays(t *testing.T) {
	t.Parallel()
	for class, want := range map[contract.Class][]contract.HealAction{
		contract.ClassLLM:       {"correct_json", "regenerate", "stricter_schema", "lower_temperature", "more_reasoning", "safer_model", "ask_person"},
		contract.ClassInfra:     {"other_worker", "other_provider", "ask_person"},
		contract.ClassAssertion: {"repair", "ask_person"},
		contract.ClassRuntime:   {"rerun_strict", "repair", "ask_person"},
		contract.ClassLogic:     {"refine_plan", "refine_step", "ask_person"},
		contract.ClassConfig:    {"create_defaults", "ask_person"},
		contract.ClassSafety:    {"policy_correction", "ask_person"},
		contract.ClassHuman:     {"ask_person"},
	} {
		require.Equal(t, want, fault.HealOf(class, contract.CodeUnknown), class)
	}
	require.Equal(t, fault.HealOf(contract.ClassRuntime, ""), fault.HealOf("NEW_ERROR", ""), "a class that nobody knows heals like RUNTIME_ERROR")
}

func TestACodeHealsInItsOwnWay(t *testing.T) {
	t.Parallel()
	first := func(class contract.Class, code contract.Code) contract.HealAction {
		action, ok := fault.NextAction(&contract.Failure{Class: class, Code: code}, nil)
		require.True(t, ok, code)
		return action
	}
	require.Equal(t, contract.HealCompactContext, first(contract.ClassLLM, contract.CodeContextOverflow))
	require.Equal(t, contract.HealOtherProvider, first(contract.ClassInfra, contract.CodeQuotaExhausted))
	require.Equal(t, contract.HealWait, first(contract.ClassInfra, contract.CodeRateLimited))
	require.Equal(t, contract.HealRepair, first(contract.ClassLogic, contract.CodeMergeConflict))
	require.Equal(t, contract.HealLessReasoning, first(contract.ClassLLM, contract.CodeTruncated))
	require.Equal(t, contract.HealRegenerate, first(contract.ClassLLM, contract.CodeRefusal), "a refusal has no JSON to correct")
	for _, code := range []contract.Code{contract.CodeBranchConflict, contract.CodeIntegrity, contract.CodeUnauthorized} {
		require.Equal(t, []contract.HealAction{contract.HealAskPerson}, fault.HealOf(contract.ClassConfig, code), "only a person decides about %s", code)
	}
}

func TestWhatAPersonOrABudgetHasEndedIsNotHealed(t *testing.T) {
	t.Parallel()
	for _, code := range []contract.Code{
		contract.CodeCancelled, contract.CodeRunTimeout, contract.CodeRejected, contract.CodeApprovalExpired, contract.CodeBudgetExceeded,
	} {
		f := &contract.Failure{Class: contract.ClassInfra, Code: code}
		action, ok := fault.NextAction(f, nil)
		require.False(t, ok, "%s: %s", code, action)
		require.True(t, fault.Final(f), code)
	}
	require.False(t, fault.Final(&contract.Failure{Class: contract.ClassHuman, Code: contract.CodeRepository}))
	require.False(t, fault.Final(nil))
	_, ok := fault.NextAction(nil, nil)
	require.False(t, ok, "without a failure there is nothing to heal")
}

func TestActionsAreTriedOnceEachAndAPersonLast(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := &contract.Failure{
			Class: rapid.SampledFrom(contract.Classes()).Draw(t, "class"),
			Code:  rapid.SampledFrom([]contract.Code{contract.CodeUnknown, contract.CodeRefusal, contract.CodeQuotaExhausted, contract.CodeMergeConflict, contract.CodeMissing, contract.CodeUnauthorized}).Draw(t, "code"),
		}
		var tried []contract.HealAction
		for {
			action, ok := fault.NextAction(f, tried)
			if !ok {
				break
			}
			if slices.Contains(tried, action) {
				t.Fatalf("%s again after %v", action, tried)
			}
			if !slices.Contains(contract.HealActions(), action) {
				t.Fatalf("%s is no action of the contract", action)
			}
			tried = append(tried, action)
		}
		if len(tried) == 0 || tried[len(tried)-1] != contract.HealAskPerson {
			t.Fatalf("%v does not end with a person", tried)
		}
	})
}

func TestARowCannotBeChangedFromOutside(t *testing.T) {
	t.Parallel()
	fault.HealOf(contract.ClassAssertion, "")[0] = contract.HealAskPerson
	require.Equal(t, contract.HealRepair, fault.HealOf(contract.ClassAssertion, "")[0])
}

func TestAdviceIsThatOfTheCodeWhereItSaysMoreThanTheClass(t *testing.T) {
	t.Parallel()
	seen := map[string]contract.Code{}
	for code, word := range map[contract.Code]string{
		contract.CodeBranchConflict: "branch", contract.CodeUnauthorized: "key", contract.CodeIntegrity: "checksum", contract.CodeModelNotFound: "rgpt models",
		contract.CodeQuotaExhausted: "limit", contract.CodeInvalidConfig: "set the value", contract.CodeStepBudget: "execution.step", contract.CodeMissing: "install",
		contract.CodeRepository: "base commit", contract.CodeDiskFull: "disk space", contract.CodeIsolation: "rgpt doctor",
	} {
		for _, class := range contract.Classes() {
			text := fault.Advice(class, code)
			require.Contains(t, text, word, code)
			require.NotEqual(t, fault.Advice(class, contract.CodeUnknown), text, "%s adds to what %s says", code, class)
			if other, ok := seen[text]; ok {
				require.Equal(t, code, other, "one text for two codes")
			}
			seen[text] = code
		}
	}
	for _, class := range contract.Classes() {
		require.NotEmpty(t, fault.Advice(class, contract.CodeUnknown), class)
	}
	require.Equal(t, fault.Advice(contract.ClassRuntime, ""), fault.Advice("NEW_ERROR", ""))
}
