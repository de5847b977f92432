package echo

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	defaults := Options{HTTP: 8080, TCP: 8081, UDP: 8082, Stream: 8083}
	with := func(f func(*Options)) Options { o := defaults; f(&o); return o }
	for _, tc := range []struct {
		args []string
		want Options
		errs []string // all must be in the error
	}{
		{nil, defaults, nil},
		{[]string{"--http=80", "--tcp=0", "--udp=53", "--stream=0"}, Options{HTTP: 80, UDP: 53}, nil},
		{[]string{"--delay=20ms", "--fail=0.25", "--slow-start=5s"}, with(func(o *Options) {
			o.Delay, o.Fail, o.SlowStart = 20*time.Millisecond, 0.25, 5*time.Second
		}), nil},
		{[]string{"--not-ready", "--close"}, with(func(o *Options) { o.NotReady, o.Close = true, true }), nil},
		{[]string{"--not-ready=false", "--close=true"}, with(func(o *Options) { o.Close = true }), nil},
		{[]string{"--size=64KiB"}, with(func(o *Options) { o.Size = 65536 }), nil},
		{[]string{"--size=1.5kB"}, with(func(o *Options) { o.Size = 1500 }), nil},
		{[]string{"--size=10"}, with(func(o *Options) { o.Size = 10 }), nil},
		{[]string{"--http=0", "--tcp=0", "--stream=0"}, Options{UDP: 8082}, nil},
		{[]string{"--http=8081"}, Options{}, []string{"--http and --tcp both ask for TCP port 8081"}},
		{[]string{"--udp=8081"}, with(func(o *Options) { o.UDP = 8081 }), nil},
		{[]string{"--nope", "serve", "-close", "--http=x", "--http=65536", "--fail=2", "--fail=NaN", "--delay=-1s", "--size=1GiB",
			"--size=KiB", "--delay", "--close=maybe"}, Options{}, []string{
			`unknown argument "--nope"`, `"serve"`, `"-close"`, `"--http=x": want a port`, `"--http=65536"`, `"--fail=2": want a share`,
			`"--fail=NaN"`, `"--delay=-1s": want a duration`, `"--size=1GiB": want a size`, `"--size=KiB"`, `"--delay" needs a value`,
			`"--close=maybe": want true or false`}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			got, err := Parse(tc.args)
			if (err != nil) != (tc.errs != nil) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tc.errs {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %s:\n%v", want, err)
				}
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestParseTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return "--" + rapid.SampledFrom([]string{"http", "size", "fail", "delay", "close"}).Draw(t, "name") + "=" + rapid.String().Draw(t, "value")
		}))).Draw(t, "args")
		o, err := Parse(args)
		if err != nil && o != (Options{}) {
			t.Fatalf("options beside an error: %+v", o)
		}
		if o.Size < 0 || o.Size > maxSize || o.Delay < 0 || !(o.Fail >= 0 && o.Fail <= 1) {
			t.Fatalf("out of range: %+v", o)
		}
	})
}
