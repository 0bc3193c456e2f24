package glob_test

import (
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/glob"
)

func ExampleMatch() {
	fmt.Println(glob.Match("**/*_test.go", "internal/glob/glob_test.go"))
	fmt.Println(glob.Match("src/*.{js,ts}", "src/lib/app.ts"))
	fmt.Println(glob.Match("[", "["))
	// Output:
	// true
	// false
	// false
}
