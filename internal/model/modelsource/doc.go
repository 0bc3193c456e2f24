// Package modelsource reads what maintained public sources know about models, as entries of the
// catalogue: LiteLLM's list of prices, the API of models.dev, and catalogue files of this program;
// scores of models from LiveBench. It also tells what a newer source changes.
//
// Sources are data of strangers: their sizes and numbers are bounded, names are checked, and an entry
// that makes no sense is left out.
package modelsource
