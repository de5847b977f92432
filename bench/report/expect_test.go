package report

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"proxylab/bench/events"
)

// fullSubject has a different figure everywhere.
func fullSubject() *Subject {
	lat := func(x float64) *Latency {
		return &Latency{P50: x, P90: 2 * x, P99: 3 * x, P999: 4 * x, Max: 5 * x, Mean: 6 * x, Samples: 7}
	}
	return &Subject{
		Proxier: "iptables", Repetition: 1,
		Loads: map[string]*Load{
			"web": {Kind: "http", Requests: number[int64](1000), Errors: number[int64](5), ErrorsByKind: map[string]int64{"reset": 4, "status-503": 1},
				Late: number[int64](2), Rate: number(200.0), ThroughputBps: number(1e6), Latency: lat(0.001), Connect: lat(0.01),
				Endpoints: map[string]int64{"a": 10, "b": 30}, Sources: map[string]int64{"10.0.0.1": 40}, OpenMax: number(40)},
			"web/direct": {Requests: number[int64](1), Errors: number[int64](0)},
			"my.web-2":   {Requests: number[int64](2), Errors: number[int64](1)},
			"web.errors": {Requests: number[int64](77), Errors: number[int64](0)},
			"idle":       {Requests: number[int64](0), Errors: number[int64](0)},
			"silent":     {},
		},
		Sync: &Sync{Count: 9, Full: 2, Partial: 7, Failures: 1, Seconds: &SyncSeconds{P50: 0.1, P99: 0.2, Max: 0.3},
			CPUSeconds: number(1.5), CPUSecondsPerSync: number(0.15)},
		ProgrammingSeconds: &Programming{ProgrammingSamples: ProgrammingSamples{Samples: 10, P50: 0.4, P99: 0.5, Max: 0.6}, Unobserved: 3,
			Added: &ProgrammingSamples{Samples: 6, P50: 0.41, P99: 0.51, Max: 0.61}},
		Swap:           []Swap{{Seconds: 1, ConnectionsBroken: 2, RequestsFailed: 3}, {Seconds: 4, ConnectionsBroken: 5, RequestsFailed: 6}},
		ProxierUsage:   &Usage{CPUSeconds: 8, MaxRSSBytes: 64 << 20},
		SoftirqSeconds: number(0.7),
	}
}

func TestExpectations(t *testing.T) {
	for _, c := range []struct {
		text  string
		holds bool
		got   string
		load  string
	}{
		{"load.web.errors == 5", true, "5", "web"},
		{"load.web.errors==0", false, "5", "web"},
		{"  load.web.errors  !=  5 ", false, "5", "web"},
		{"load.web.errors.reset <= 4", true, "4", "web"},
		{"load.web.errors.status-503 == 1", true, "1", "web"},
		{"load.web.errors.timeout == 0", true, "0", "web"},
		{"load.web.error_rate < 1%", true, "0.5%", "web"},
		{"load.web.error_rate < 0.005", false, "0.5%", "web"},
		{"load.web.requests > 1e3", false, "1000", "web"},
		{"load.web.rate >= 200/s", true, "200/s", "web"},
		{"load.web.rate >= 200", true, "200/s", "web"},
		{"load.web.throughput > 1MB/s", false, "1MB/s", "web"},
		{"load.web.throughput < 1MiB/s", true, "1MB/s", "web"},
		{"load.web.late == 2", true, "2", "web"},
		{"load.web.open == 40", true, "40", "web"},
		{"load.web.latency.p50 <= 1ms", true, "1ms", "web"},
		{"load.web.latency.p90 < 2ms", false, "2ms", "web"},
		{"load.web.latency.p99 < 50ms", true, "3ms", "web"},
		{"load.web.latency.p999 < 1s", true, "4ms", "web"},
		{"load.web.latency.max < 1m", true, "5ms", "web"},
		{"load.web.latency.mean > 0", true, "6ms", "web"},
		{"load.web.connect.p99 < 1000µs", false, "30ms", "web"},
		{"load.web.connect.p99 < 1000us", false, "30ms", "web"},
		{"load.web.endpoints == 2", true, "2", "web"},
		{"load.web.endpoints.min_share >= 25%", true, "25%", "web"},
		{"load.web.endpoints.max_share <= 0.7", false, "75%", "web"},
		{"load.web/direct.errors == 0", true, "0", "web/direct"},
		{"load.my.web-2.errors == 1", true, "1", "my.web-2"},
		{"load.my.web-2.error_rate == 50%", true, "50%", "my.web-2"},
		{"load.web.errors.requests == 77", true, "77", "web.errors"},
		{"load.idle.requests == 0", true, "0", "idle"},
		{"load.idle.errors == 0", false, "no samples: it made no request", "idle"},
		{"load.idle.error_rate < 1%", false, "no samples: it made no request", "idle"},
		{"load.idle.latency.p99 < 1s", false, "no samples: no request succeeded", "idle"},
		{"load.idle.endpoints >= 0", false, "no samples: no pod that answered is known", "idle"},
		{"load.silent.requests >= 0", false, "no samples: it logged nothing", "silent"},
		{"load.nothing.errors == 0", false, "no samples: load nothing was not played", "nothing"},
		{"programming.p50 < 1s", true, "400ms", ""},
		{"programming.p99 < 500ms", false, "500ms", ""},
		{"programming.max < 1s", true, "600ms", ""},
		{"programming.samples > 9", true, "10", ""},
		{"programming.unobserved == 0", false, "3", ""},
		{"programming.added.p99 < 1s", true, "510ms", ""},
		{"programming.removed.p99 < 1s", false, "no samples: no such change of an endpoint was followed", ""},
		{"programming.removed.samples == 0", false, "no samples: no such change of an endpoint was followed", ""},
		{"sync.count == 9", true, "9", ""},
		{"sync.full == 2", true, "2", ""},
		{"sync.partial == 7", true, "7", ""},
		{"sync.failures == 0", false, "1", ""},
		{"sync.cpu < 1s", false, "1.5s", ""},
		{"sync.cpu_per_sync < 200ms", true, "150ms", ""},
		{"sync.seconds.p50 < 1s", true, "100ms", ""},
		{"sync.seconds.p99 < 1s", true, "200ms", ""},
		{"sync.seconds.max < 1s", true, "300ms", ""},
		{"swap.seconds < 5s", true, "4s", ""},
		{"swap.broken == 7", true, "7", ""},
		{"swap.failed == 9", true, "9", ""},
		{"usage.cpu < 10s", true, "8s", ""},
		{"usage.max_rss <= 64MiB", true, "67.1MB", ""},
		{"usage.max_rss <= 64 MB", false, "67.1MB", ""},
		{"usage.max_rss > 67000000", true, "67.1MB", ""},
		{"usage.softirq < 1s", true, "700ms", ""},
	} {
		e, err := ParseExpectation(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		v := Evaluate(&Result{Subjects: []*Subject{fullSubject()}}, []Expectation{e})[0]
		if v.Holds != c.holds || v.Got != c.got || e.Load() != c.load || v.Proxier != "iptables" || v.Name != strings.TrimSpace(c.text) {
			t.Errorf("%s: %+v, load %q; want holds %v, got %q, load %q", c.text, v, e.Load(), c.holds, c.got, c.load)
		}
		if (v.Value == nil) != strings.HasPrefix(v.Got, "no samples") {
			t.Errorf("%s: value %v with %q", c.text, v.Value, v.Got)
		}
	}
}

// TestWithoutSamplesNothingHolds whatever is expected.
func TestWithoutSamplesNothingHolds(t *testing.T) {
	for _, m := range subjectMetrics() {
		for op := range operators {
			e, err := ParseExpectation(m.name + " " + op + " 0")
			if err != nil {
				t.Fatal(err)
			}
			v := Evaluate(&Result{Subjects: []*Subject{{}}}, []Expectation{e})[0]
			if v.Holds || !strings.HasPrefix(v.Got, "no samples: ") {
				t.Errorf("%s: %+v", e, v)
			}
		}
	}
}

func TestExpectationMistakes(t *testing.T) {
	for text, parts := range map[string][]string{
		"":                                 {"write <figure> <operator> <value>"},
		"load.web.errors":                  {"write <figure> <operator> <value>"},
		"load.web.errors 0":                {"write <figure> <operator> <value>"},
		"load.web.errors = 0":              {`unknown operator "="`, "use ==, !="},
		"load.web.errors =< 0":             {`unknown operator "=<"`},
		"load.web.errors == ":              {"the value is missing", "a plain number"},
		"load.web.errors == 5ms":           {`"5ms" is not a plain number`},
		"load.web.errors == -1":            {"is not a plain number"},
		"load.web.errors == 0x10":          {"is not a plain number"},
		"load.web.errors == NaN":           {"is not a plain number"},
		"load.web.errors == 1_000":         {"is not a plain number"},
		"load.web.errors <= 1% of it":      {"is not a plain number", "use load.web.error_rate"},
		"load.web.errors <= 1%":            {"is not a plain number", "use load.web.error_rate"},
		"load.web.latency.p99 < 50":        {`"50" is not a duration such as 50ms`},
		"load.web.latency.p99 < 3%":        {`"3%" is not a duration`},
		"load.web.latency.p99 < -3ms":      {"is not a duration"},
		"load.web.latency.p99 < 1e400s":    {"is not a duration"},
		"load.web.latency.p98 < 50ms":      {`unknown figure in "load.web.latency.p98"`, "latency.p99", "errors.<kind>"},
		"load.web.errors.timeuot == 0":     {`unknown kind of errors "timeuot"`, "timeout", "status-<number>"},
		"load.web.errors.status-5 == 0":    {"unknown kind of errors"},
		"load.web.error_rate < 150%":       {"is not a share"},
		"load.web.rate > 5/m":              {"is not a rate such as 200/s"},
		"load.web.throughput > 5Mb/s":      {"is not a throughput such as 100MB/s"},
		"load..errors == 0":                {"name of the load is missing"},
		"load.errors == 0":                 {"unknown figure"},
		"load.web == 0":                    {"unknown figure"},
		"sync.seconds.p90 < 1s":            {`unknown figure "sync.seconds.p90"`, "of sync there are sync.count", "sync.seconds.p99"},
		"programming.added.p9 < 1s":        {"programming.added.p99"},
		"memory < 5MB":                     {`unknown figure "memory"`, "load.<name>.<figure>", "usage.max_rss"},
		"usage.max_rss < 64MiBytes":        {"is not a size such as 64MiB"},
		"load.web.latency.p98 =< nonsense": {"unknown operator", "unknown figure"}, // both at once
	} {
		_, err := ParseExpectation(text)
		if err == nil {
			t.Errorf("%q was accepted", text)
			continue
		}
		for _, part := range append(parts, "expectation ") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %q is not in: %v", text, part, err)
			}
		}
	}
}

// TestAnyLoadNameWorks: whatever a load is called, an expectation on it is about it.
func TestAnyLoadNameWorks(t *testing.T) {
	figures := loadMetrics()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z][a-z0-9./-]{0,12}[a-z0-9]`).Draw(t, "name")
		m := rapid.SampledFrom(figures).Draw(t, "figure")
		for _, other := range figures {
			if strings.HasSuffix(name, "."+strings.TrimSuffix(other.name, "."+m.name)) && strings.HasSuffix(other.name, "."+m.name) {
				t.Skip("the name ends like a longer figure")
			}
		}
		e, err := ParseExpectation("load." + name + "." + m.name + " >= 0")
		if err != nil || e.Load() != name {
			t.Fatalf("%s of %s: %v, load %q", m.name, name, err, e.Load())
		}
	})
}

// TestFormattedValuesCanBeExpected: what a table or an error says can be typed into a scenario.
func TestFormattedValuesCanBeExpected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.SampledFrom([]dimension{count, duration, share, size, rate, flow}).Draw(t, "dimension")
		v := math.Pow(10, rapid.Float64Range(-6, 9).Draw(t, "magnitude"))
		switch dim {
		case share:
			v = math.Min(v, 1)
		case count:
			v = math.Trunc(v)
		}
		text := dim.format(v)
		got, err := dim.parse(text)
		if err != nil {
			t.Fatalf("%v is written %q: %v", v, text, err)
		}
		if tolerance := math.Max(0.0051*v, 1e-6); math.Abs(got-v) > tolerance && !(dim == duration && v >= 99.95 && math.Abs(got-v) <= 0.5) {
			t.Fatalf("%v is written %q, which is %v", v, text, got)
		}
	})
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		dim  dimension
		v    float64
		want string
	}{
		{duration, 0, "0s"}, {duration, 0.0000004, "0.4µs"}, {duration, 0.000012, "12µs"}, {duration, 0.0012345, "1.23ms"},
		{duration, 0.0009999, "1ms"}, {duration, 0.9999, "1s"}, {duration, 45.64, "45.6s"}, {duration, 123.4, "2m3s"}, {duration, -0.5, "-500ms"},
		{size, 0, "0B"}, {size, 999, "999B"}, {size, 999.6, "1kB"}, {size, 96468992, "96.5MB"}, {size, 2.5e9, "2.5GB"},
		{rate, 199.96, "200/s"}, {rate, 0.5, "0.5/s"}, {flow, 1.25e9, "1.25GB/s"},
		{share, 0.3333, "33.3%"}, {share, 0, "0%"}, {share, 1, "100%"}, {count, 12345, "12345"}, {count, 2.5, "2.5"}, {count, 1234.5, "1234"},
	} {
		if got := c.dim.format(c.v); got != c.want {
			t.Errorf("%v: got %s, want %s", c.v, got, c.want)
		}
	}
}

// designFields are the names of result.json that DESIGN section 3 promises; "*" is any name.
const designFields = `run.id run.scenario run.lab run.kernel.kind run.kernel.release run.cpus run.started run.ended run.version
subjects.proxier subjects.repetition subjects.loads.*.kind subjects.loads.*.requests subjects.loads.*.errors
subjects.loads.*.errorsByKind.* subjects.loads.*.rate subjects.loads.*.throughputBps
subjects.loads.*.latencySeconds.p50 subjects.loads.*.latencySeconds.p90 subjects.loads.*.latencySeconds.p99
subjects.loads.*.latencySeconds.p999 subjects.loads.*.latencySeconds.max subjects.loads.*.latencySeconds.mean
subjects.loads.*.connectSeconds.p50 subjects.loads.*.endpoints.*
subjects.sync.count subjects.sync.full subjects.sync.partial subjects.sync.failures subjects.sync.seconds.p50
subjects.sync.seconds.p99 subjects.sync.seconds.max subjects.sync.cpuSecondsPerSync subjects.sync.cpuSeconds subjects.sync.objects.*
subjects.programmingSeconds.samples subjects.programmingSeconds.p50 subjects.programmingSeconds.p99 subjects.programmingSeconds.max
subjects.swap.from subjects.swap.to subjects.swap.seconds subjects.swap.connectionsOpen subjects.swap.connectionsBroken
subjects.swap.requestsFailed subjects.proxierUsage.cpuSeconds subjects.proxierUsage.maxRssBytes
subjects.firstPacketSeconds.p01 subjects.firstPacketSeconds.p50 subjects.firstPacketSeconds.p90 subjects.firstPacketSeconds.p99
subjects.firstPacketSeconds.samples
expectations.name expectations.proxier expectations.repetition expectations.holds expectations.got expectations.want notes`

func TestResultHasTheFieldsOfTheDesign(t *testing.T) {
	var have []string
	paths(reflect.TypeFor[Result](), "", &have)
	for _, want := range strings.Fields(designFields) {
		if !slices.Contains(have, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, path := range have {
		if strings.Contains(path, "._") || strings.HasSuffix(path, ".") {
			t.Errorf("odd name %s", path)
		}
	}
}

// paths are the names that a type has in JSON.
func paths(t reflect.Type, at string, list *[]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		paths(t.Elem(), at, list)
	case reflect.Map:
		paths(t.Elem(), at+".*", list)
	case reflect.Struct:
		if t.Implements(reflect.TypeFor[json.Marshaler]()) {
			*list = append(*list, strings.TrimPrefix(at, "."))
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				paths(f.Type, at, list)
				continue
			}
			paths(f.Type, at+"."+name, list)
		}
	default:
		*list = append(*list, strings.TrimPrefix(at, "."))
	}
}

func TestEvaluateIsPerSubject(t *testing.T) {
	r := fold(
		events.Event{RunStarted: &events.RunStarted{Expect: []string{"sync.count > 0", "no such thing"}}},
		events.Event{Subject: &events.Subject{Proxier: "a", Backend: "nft", Repetition: 1}, Sync: &events.Sync{}},
		events.Event{Subject: &events.Subject{Proxier: "a", Backend: "nft", Repetition: 2}, SubjectStarted: &events.SubjectStarted{}},
	)
	if len(r.Expectations) != 4 {
		t.Fatalf("%+v", r.Expectations)
	}
	for i, want := range []Verdict{
		{Name: "sync.count > 0", Repetition: 1, Holds: true, Got: "1", Want: "> 0"},
		{Name: "sync.count > 0", Repetition: 2, Got: "no samples: no such sync was reported", Want: "> 0"},
	} {
		got := r.Expectations[i]
		if got.Name != want.Name || got.Repetition != want.Repetition || got.Holds != want.Holds || got.Got != want.Got ||
			got.Want != want.Want || got.Proxier != "a" || got.Backend != "nft" {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for _, v := range r.Expectations[2:] {
		if v.Holds || !strings.HasPrefix(v.Got, "unreadable: ") {
			t.Errorf("%+v", v)
		}
	}
}
