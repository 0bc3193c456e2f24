import { test, expect } from 'vitest';
import { add, sub } from './sum.js';
test('adds', () => expect(add(1, 2)).toBe(3));
test('subtracts', () => expect(sub(2, 1)).toBe(1));
