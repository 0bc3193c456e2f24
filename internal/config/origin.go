package config

import "fmt"

// Source is a layer of the configuration.
type Source string

// The layers, each overriding the previous one.
const (
	SourceDefault Source = ""
	SourceFile    Source = "file"
	SourceEnv     Source = "env"
	SourceFlag    Source = "flag"
	SourceRequest Source = "request" // for a run
	// SourceSettings is a choice that a person made while the system was running. It is stored in the
	// database.
	SourceSettings Source = "settings"
)

// Origin is the place where a value was set. The zero value is the default.
type Origin struct {
	Source Source
	File   string // of SourceFile
	Line   int    // of SourceFile, from 1; 0 when it concerns the whole file
	// Repository is set if the file is a repository's, not the operator's.
	Repository bool
	Name       string // of SourceEnv: the variable; of SourceFlag and SourceRequest: the key; of SourceSettings: who chose it, and when
}

// IsDefault reports whether the value is the default.
func (o Origin) IsDefault() bool { return o.Source == SourceDefault }

// String describes the origin for users.
func (o Origin) String() string {
	switch o.Source {
	case SourceFile:
		if o.Line == 0 {
			return o.File
		}
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	case SourceEnv:
		return "environment variable " + o.Name
	case SourceFlag:
		return "flag " + o.Name
	case SourceRequest:
		return "setting " + o.Name + " in the request"
	case SourceSettings:
		return "settings page, " + o.Name
	default:
		return "default"
	}
}
