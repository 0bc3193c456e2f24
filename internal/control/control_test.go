package control

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestACopyOfRunsHasAllThatRunsHasExceptItsIndex(t *testing.T) {
	t.Parallel()
	r := &Runs{Config: config.Default(), DataDir: "/data"}
	mine := r.own()
	fields := reflect.ValueOf(r).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.CanSet() && f.Kind() == reflect.Pointer && f.IsNil() {
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
	other := r.apart()
	require.Nil(t, other.index)
	require.NotSame(t, mine, other.own())
	require.Same(t, mine, r.own(), "the copy changes nothing")
	other.index = r.index
	require.Equal(t, r, other)
}
