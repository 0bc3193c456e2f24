// Package greeter greets people.
package greeter

// Greet returns a greeting for a person.
func Greet(name string) string {
	return "Hello, " + name + "!"
}
