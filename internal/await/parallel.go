package await

import "flag"

// parallelTests is the number of parallel tests in packages whose tests mostly wait.
const parallelTests = "8"

// RunsManyAtOnce allows more parallel tests than CPUs, for packages whose tests mostly wait. Call
// it in TestMain; the flag -parallel overrides it.
func RunsManyAtOnce() {
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		panic(err) //nolint:forbidigo // not in a test binary
	}
}
