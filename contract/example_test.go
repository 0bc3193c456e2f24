package contract_test

import (
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
)

func ExamplePlan_Order() {
	plan := contract.Plan{Steps: []contract.Step{
		{ID: "docs", Name: "Document it", Dependencies: []string{"api", "table"}},
		{ID: "table", Name: "Add a table"},
		{ID: "api", Name: "Read the table", Dependencies: []string{"table"}},
	}}
	fmt.Println(plan.Problems())
	fmt.Println(plan.Order())
	fmt.Println(plan.Requires("api"))
	// Output:
	// []
	// [table api docs]
	// [table]
}

func ExamplePlan_Problems() {
	plan := contract.Plan{Steps: []contract.Step{
		{ID: "a", Name: "First", Dependencies: []string{"b"}},
		{ID: "b", Name: "Second", Dependencies: []string{"a"}},
	}}
	for _, p := range plan.Problems() {
		fmt.Println(p.Problem)
	}
	// Output: the steps a → b → a form a dependency cycle
}
