const { test } = require('node:test');
const assert = require('node:assert');
const { add, sub } = require('./sum.js');
test('adds', () => assert.equal(add(1, 2), 3));
test('subtracts', () => assert.equal(sub(2, 1), 1));
