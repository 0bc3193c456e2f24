package tests_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
)

const (
	specRB  = "RSpec.describe Cart do\n  it \"adds\" do\n    expect(Cart.new.add(1)).to eq(1)\n  end\n\n  it 'removes' do\n    expect(Cart.new.remove(1)).to eq(0)\n  end\nend\n"
	testPHP = "<?php\nclass CartTest extends TestCase\n{\n    public function testAdds()\n    {\n        $this->assertSame(1, (new Cart)->add(1));\n    }\n\n    public function testRemoves()\n    {\n        $this->assertSame(0, (new Cart)->remove(1));\n    }\n}\n"
	testCS  = "public class CartTests\n{\n    [Fact]\n    public void Adds()\n    {\n        Assert.Equal(1, new Cart().Add(1));\n    }\n\n    [Fact]\n    public void Removes()\n    {\n        Assert.Equal(0, new Cart().Remove(1));\n    }\n}\n"
	testCC  = "TEST(Cart, Adds) {\n  EXPECT_EQ(Cart().add(1), 1);\n}\n\nTEST(Cart, Removes) {\n  EXPECT_EQ(Cart().remove(1), 0);\n}\n"
)

func TestTestsInOtherLanguagesAreComparedByTheirLines(t *testing.T) {
	t.Parallel()
	cut := func(s, from string) string { return s[:strings.Index(s, from)] }
	for _, tt := range []struct {
		name          string
		before, after tree
		want          []string
	}{
		{"a deleted file in Ruby", tree{"spec/cart_spec.rb": specRB, "a": ""}, tree{"a": ""}, []string{"tests/deleted major spec/cart_spec.rb"}},
		{"a file that is deleted with its subject", tree{"spec/cart_spec.rb": specRB, "lib/cart.rb": "class Cart; end\n"}, tree{}, []string{"tests/deleted minor spec/cart_spec.rb"}},
		{"a deleted test in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart_spec.rb": cut(specRB, "  it 'removes'") + "end\n"}, []string{"tests/deleted major spec/cart_spec.rb"}},
		{"a skipped test in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart_spec.rb": strings.Replace(specRB, "it 'removes'", "xit 'removes'", 1)}, []string{"tests/skipped major spec/cart_spec.rb:6"}},
		{"a pending test in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart_spec.rb": strings.Replace(specRB, "do\n    expect", "do\n    pending \"later\"\n    expect", 1)}, []string{"tests/skipped major spec/cart_spec.rb:3"}},
		{"a hollow file in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart_spec.rb": strings.ReplaceAll(specRB, "expect", "puts")}, []string{"tests/weakened major spec/cart_spec.rb"}},
		{"a moved test in Ruby", tree{"spec/cart_spec.rb": specRB, "spec/b_spec.rb": "x\n"}, tree{"spec/cart_spec.rb": cut(specRB, "  it 'removes'") + "end\n", "spec/b_spec.rb": "x\n  it 'removes' do\n    expect(1).to eq(1)\n  end\n"}, nil},
		{"a renamed test in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart_spec.rb": strings.Replace(specRB, "'removes'", "'takes out'", 1)}, nil},
		{"a moved file in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/shop/cart_spec.rb": specRB}, nil},
		{"a file moved out of sight in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart.rb": specRB}, []string{"tests/deleted major spec/cart.rb"}},
		{"a skip under a condition", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart_spec.rb": strings.Replace(specRB, "do\n    expect", "do\n    skip \"slow\" if windows?\n    expect", 1)}, nil},
		{"a new test in Ruby", tree{"spec/cart_spec.rb": specRB}, tree{"spec/cart_spec.rb": specRB + "it 'counts' do\n  expect(1).to eq(1)\nend\n"}, nil},
		{"a deleted test in PHP", tree{"tests/CartTest.php": testPHP}, tree{"tests/CartTest.php": cut(testPHP, "    public function testRemoves") + "}\n"}, []string{"tests/deleted major tests/CartTest.php"}},
		{"a skipped test in PHP", tree{"tests/CartTest.php": testPHP}, tree{"tests/CartTest.php": strings.Replace(testPHP, "        $this", "        $this->markTestSkipped('later');\n        $this", 1)}, []string{"tests/skipped major tests/CartTest.php:6"}},
		{"a deleted test in C#", tree{"CartTests.cs": testCS}, tree{"CartTests.cs": cut(testCS, "    [Fact]\n    public void Removes") + "}\n"}, []string{"tests/deleted major CartTests.cs"}},
		{"a skipped test in C#", tree{"CartTests.cs": testCS}, tree{"CartTests.cs": strings.Replace(testCS, "[Fact]", "[Fact(Skip = \"later\")]", 1)}, []string{"tests/skipped major CartTests.cs:3"}},
		{"a deleted test in C++", tree{"test/cart.cc": testCC}, tree{"test/cart.cc": cut(testCC, "TEST(Cart, Removes")}, []string{"tests/deleted major test/cart.cc"}},
		{"a skipped test in C++", tree{"test/cart.cc": testCC}, tree{"test/cart.cc": strings.Replace(testCC, "(Cart, Adds)", "(Cart, DISABLED_Adds)", 1)}, []string{"tests/skipped major test/cart.cc:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, judge(t, gatetest.Between(tt.before, tt.after)))
		})
	}
}
