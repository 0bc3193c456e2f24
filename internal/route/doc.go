// Package route chooses the model of a call from what the call needs and what the candidates offer.
// It is a pure function, so a recorded decision can be explained and repeated.
package route
