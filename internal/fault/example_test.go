package fault_test

import (
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func ExampleOfHTTPStatus() {
	fmt.Println(fault.OfHTTPStatus(429))
	fmt.Println(fault.OfHTTPStatus(401))
	// Output:
	// INFRA_ERROR rate_limited
	// CONFIG_ERROR unauthorized
}

func ExampleNextAction() {
	failed := &contract.Failure{Class: contract.ClassLogic, Code: contract.CodeMergeConflict}
	var tried []contract.HealAction
	for {
		action, ok := fault.NextAction(failed, tried)
		if !ok {
			break
		}
		fmt.Println(action)
		tried = append(tried, action)
	}
	// Output:
	// repair
	// refine_step
	// refine_plan
	// ask_person
}
